package policyfile

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	yamlast "github.com/goccy/go-yaml/ast"
	yamltoken "github.com/goccy/go-yaml/token"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// schemaOf makes the schema by the same reflection by which the decoder reads: fields
// and their tags, short forms, lists of one. The types' documentation becomes that of the schema.
type schemaOf struct {
	t    *testing.T
	docs map[string]string // of types, and of their fields as "Type.Field"
	defs map[string]any
}

type object = map[string]any

func anyOf(of ...any) object { return object{"anyOf": of} }

func text(pattern string) object { return object{"type": "string", "pattern": pattern} }

// texts are the forms of the types that have readers of their own. A pattern may take more than
// the reader, but not less; TestPatternsTakeWhatReadersTake holds them to it.
var texts = map[reflect.Type]object{
	reflect.TypeFor[time.Duration](): anyOf(object{"const": 0}, text(`^[-+]?(0|([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h))+)$`)),
	reflect.TypeFor[sluice.Rate]():   text(`^[0-9_]+/[0-9_]*(us|ms|s|m|h|d|w)?$`),
	reflect.TypeFor[netip.Prefix]():  text(`^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$`),
	reflect.TypeFor[Size]():          anyOf(object{"type": "integer", "minimum": 0}, text(`^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)?$`)),
	reflect.TypeFor[ByteRate]():      text(`^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)?/[0-9_]*(us|ms|s|m|h|d|w)?$`),
	reflect.TypeFor[Share]():         anyOf(object{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, text(`^[0-9.]+(/[0-9]+|%)?$`)),
	reflect.TypeFor[Ratio]():         anyOf(object{"type": "number", "minimum": 0, "maximum": mostPlain}, text(ratios.String())),
	reflect.TypeFor[policy.StatusRange](): anyOf(object{"type": "integer", "minimum": 100, "maximum": 599},
		text(statuses.String())),
}

// forms are those of the types that read themselves. Given their fields, as a mapping has them, it returns all
// forms that they have.
func forms() map[reflect.Type]func(g *schemaOf, fields object) object {
	return map[reflect.Type]func(g *schemaOf, fields object) object{
		reflect.TypeFor[Store]():      func(_ *schemaOf, fields object) object { return anyOf(object{"const": "memory"}, fields) },
		reflect.TypeFor[RedisStore](): func(_ *schemaOf, fields object) object { return fields },
		reflect.TypeFor[RedisTLS]():   func(_ *schemaOf, fields object) object { return anyOf(object{"type": "boolean"}, fields) },
		reflect.TypeFor[Webhook]():    func(_ *schemaOf, fields object) object { return fields },
	}
}

// of returns the schema of a type.
func (g *schemaOf) of(t reflect.Type) object {
	if form := texts[t]; form != nil {
		return form
	}
	if known := wordsOf[t]; known != nil {
		return object{"enum": slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" })}
	}
	if readers[t] != nil {
		g.t.Errorf("%v is read by a reader of its own: add its form to texts", t)
	}
	_, reads := reflect.New(t).Interface().(interface {
		read(d *decoder, path string, n yamlast.Node)
	})
	if reads && forms()[t] == nil {
		g.t.Errorf("%v reads itself: add its form to forms", t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Struct:
		return g.object(t)
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Slice:
		one := g.of(t.Elem())
		list := object{"type": "array", "items": one}
		if t.Elem().Kind() != reflect.Struct {
			list["minItems"] = 1
		}
		if t == reflect.TypeFor[[]Rule]() || t == reflect.TypeFor[[]Limit]() {
			return list
		}
		return anyOf(one, list)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "minimum": 0, "maximum": math.MaxInt64}
	}
	return object{"type": "string"}
}

// object returns a reference to the schema of a struct.
func (g *schemaOf) object(t reflect.Type) object {
	ref := object{"$ref": "#/definitions/" + t.Name()}
	if _, made := g.defs[t.Name()]; made {
		return ref
	}
	g.defs[t.Name()] = nil // in the making
	properties, required := object{}, []string{}
	for i, name := range names(t) {
		if name == "" {
			continue
		}
		f := t.Field(i)
		p := g.of(f.Type)
		if known := strings.Fields(f.Tag.Get("oneof")); len(known) > 0 {
			p = object{"enum": known}
		}
		doc := g.docs[t.Name()+"."+f.Name]
		if rest, ok := strings.CutPrefix(doc, f.Name+" "); ok {
			doc = name + " " + rest
		}
		if regexp.MustCompile(`\bRequired\.`).MatchString(doc) {
			required = append(required, name)
		}
		if doc != "" {
			if p["$ref"] != nil { // beside which nothing counts
				p = object{"allOf": []any{p}}
			}
			p = maps.Clone(p)
			p["description"] = doc
		}
		properties[name] = p
	}
	fields := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		fields["required"] = required
	}
	if t == reflect.TypeFor[File]() {
		fields["patternProperties"] = object{"^x-": true}
	}
	all := fields
	if s, ok := reflect.New(t).Interface().(shorthand); ok {
		var short []any
		for _, list := range []bool{false, true} {
			field := s.short(list)
			if field == "" {
				continue
			}
			p := properties[field]
			if !slices.ContainsFunc(short, func(x any) bool { return reflect.DeepEqual(x, p) }) {
				short = append(short, p)
			}
		}
		all = anyOf(append(short, fields)...)
	}
	if form := forms()[t]; form != nil {
		all = form(g, fields)
	}
	if doc := g.docs[t.Name()]; doc != "" {
		all = maps.Clone(all)
		all["description"] = doc
	}
	g.defs[t.Name()] = all
	return ref
}

// documentation reads the comments of the package's types and fields.
func documentation(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	clean := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.TypeSpec)
				docs[spec.Name.Name] = clean(g.Doc)
				fields, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range fields.Fields.List {
					for _, n := range field.Names {
						docs[spec.Name.Name+"."+n.Name] = clean(field.Doc)
					}
				}
			}
		}
	}
	return docs
}

// TestSchemaIsThatOfTheTypes: go generate writes schema.json, and this test notices
// when it was not done.
func TestSchemaIsThatOfTheTypes(t *testing.T) {
	g := &schemaOf{t: t, docs: documentation(t), defs: object{}}
	root := g.of(reflect.TypeFor[File]())
	if len(g.docs) < 100 || len(g.defs) < 20 {
		t.Fatalf("found %d comments and %d types", len(g.docs), len(g.defs))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(object{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"$id":     "https://raw.githubusercontent.com/sluicehq/sluice/main/policyfile/schema.json",
		"title":   "Sluice configuration", "$ref": root["$ref"], "definitions": g.defs,
	}); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), Schema()) {
		t.Error("schema.json is not what the types say: run go generate ./policyfile")
	}
}

// TestPatternsTakeWhatReadersTake writes texts at random; no schema refuses one that
// its reader takes.
func TestPatternsTakeWhatReadersTake(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"1", "0", "10", "401", "5xx", "599", ".", "/", "%", "s", "m", "h", "d", "w", "ms", "us", "µs", "ns", "B", "kB", "KiB", "MB", "_", ":", "-", "2001:db8::", "192.0.2.1", "::ffff:", "/8", "/128", "0.5", "+", "", "e", "32"}
	patterns, taken := map[reflect.Type][]*regexp.Regexp{}, map[reflect.Type]int{}
	for typ, form := range texts {
		patterns[typ] = patternsOf(form)
	}
	for range 40_000 {
		s := ""
		for range 1 + rnd.IntN(5) {
			s += pieces[rnd.IntN(len(pieces))]
		}
		for typ := range texts {
			src := newSource("x.yaml", []byte(s))
			d := &decoder{source: src}
			readers[typ](d, "x", yamlast.String(yamltoken.New(s, s, &yamltoken.Position{Line: 1, Column: 1})), reflect.New(typ).Elem())
			if len(src.errs) > 0 {
				continue
			}
			taken[typ]++
			if !slices.ContainsFunc(patterns[typ], func(p *regexp.Regexp) bool { return p.MatchString(s) }) {
				t.Fatalf("%v: %q is read, and refused by %v", typ, s, patterns[typ])
			}
		}
	}
	for typ := range texts {
		if taken[typ] < 20 {
			t.Errorf("%v: only %d texts were taken", typ, taken[typ])
		}
	}
}

// patternsOf returns the patterns of a form.
func patternsOf(form object) (all []*regexp.Regexp) {
	if pattern, ok := form["pattern"].(string); ok {
		all = append(all, regexp.MustCompile(pattern))
	}
	of, _ := form["anyOf"].([]any)
	for _, x := range of {
		all = append(all, patternsOf(x.(object))...)
	}
	return all
}
