package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/listen/web"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"
	"github.com/sluicehq/sluice/server/internal/observe/webhook"
	"github.com/sluicehq/sluice/server/internal/secret"
	"github.com/sluicehq/sluice/server/internal/store/local"
	"github.com/sluicehq/sluice/server/internal/store/remote"

	"github.com/sluicehq/sluice/internal/file/rules"
)

// schemaOf makes the schema by the same reflection by which the decoder reads: fields
// and their tags, short forms, lists of one. The comments of the types become its descriptions, and
// what they say of defaults becomes the schema's defaults.
type schemaOf struct {
	t    *testing.T
	docs map[string]string // the comments of types, and of fields as "path/of/package.Type.Field"
	read map[string]bool   // the packages whose comments are in docs
	defs ordered

	values ordered // definitions of value types, which come last
}

type object = map[string]any

// ordered is an object whose members keep their order, so that the schema, and the page that is made from it,
// have the order of the types.
type ordered struct {
	keys   []string
	values object
}

func (o *ordered) set(key string, value any) {
	if o.values == nil {
		o.values = object{}
	}
	if _, there := o.values[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:", key)
		if err := e.Encode(o.values[key]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func anyOf(of ...any) object { return object{"anyOf": of} }

func text(pattern string) object { return object{"type": "string", "pattern": pattern} }

// valueTypes are the types of values that have readers of their own, with the names that they have in the schema. A
// pattern may accept more than the reader, but not less; TestPatternsAcceptWhatReadersAccept checks that.
var valueTypes = []struct {
	name string
	of   reflect.Type
	doc  string
	form object
}{
	{
		"Duration", reflect.TypeFor[time.Duration](), "a time such as 500ms, 10s, 5m, 1h30m or 1d; a day has 24 hours, and days and weeks (w) are whole numbers",
		anyOf(object{"const": 0}, text(`^[-+]?(0|([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h)|[0-9]+[dw])+)$`)),
	},
	{
		"Rate", reflect.TypeFor[sluice.Rate](), "a count per period: 100/m, 5/s, 10/30s; the units are us, ms, s, m, h, d and w",
		text(`^[0-9_]+/[0-9_]*(us|ms|s|m|h|d|w)?$`),
	},
	{
		"Size", reflect.TypeFor[reader.Size](), "a number of bytes: 4096, 512B, 64KiB, 16MiB, 1GiB, or kB, MB and GB for powers of a thousand",
		anyOf(object{"type": "integer", "minimum": 0}, text(`^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)?$`)),
	},
	{
		"ByteRate", reflect.TypeFor[reader.ByteRate](), "a number of bytes per period: 1MB/s, 64KiB/s, 10GB/h",
		text(`^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)?/[0-9_]*(us|ms|s|m|h|d|w)?$`),
	},
	{
		"Share", reflect.TypeFor[reader.Share](), "a part of the whole, more than 0 and up to 1: 1/4, 25% or 0.25",
		anyOf(object{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, text(`^[0-9.]+(/[0-9]+|%)?$`)),
	},
	{
		"Portion", reflect.TypeFor[reader.Portion](), "a number of units, or a share of what a limit gives at once: 100, 50% or 1/2",
		anyOf(object{"type": "integer", "minimum": 0}, text(`^[0-9.]+(/[0-9]+|%)?$`)),
	},
	{
		"Ratio", reflect.TypeFor[reader.Ratio](), "a number of 0 or more: 0.9, 1.5 or 90%; above 10 it needs the percent sign",
		anyOf(object{"type": "number", "minimum": 0, "maximum": 10}, text(`^\d{1,6}(\.\d{1,6})?%?$`)),
	},
	{
		"Network", reflect.TypeFor[netip.Prefix](), "an address or a network: 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32",
		text(`^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$`),
	},
	{
		"Proxy", reflect.TypeFor[Proxy](), "an address, a network, or unix for peers at Unix sockets: 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32",
		text(`^(unix|[0-9A-Fa-f:.]+(/[0-9]{1,3})?)$`),
	},
	{
		"Status", reflect.TypeFor[rules.Status](), "a status or a range of statuses: 401, 4xx or 500-503",
		anyOf(object{"type": "integer", "minimum": 100, "maximum": 599}, text(`^(\d)xx$|^(\d{3})-(\d{3})$|^\d{3}$`)),
	},
}

// texts are the forms of these types.
var texts = func() map[reflect.Type]object {
	forms := map[reflect.Type]object{}
	for _, v := range valueTypes {
		forms[v.of] = v.form
	}
	return forms
}()

// of returns the schema of a type.
func (g *schemaOf) of(t reflect.Type) object {
	for _, v := range valueTypes {
		if v.of == t {
			form := maps.Clone(v.form)
			form["description"] = v.doc
			g.values.set(v.name, form)
			return object{"$ref": "#/definitions/" + v.name}
		}
	}
	if reader.IsValue(t) {
		g.t.Errorf("%v is a value: add its form to valueTypes", t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Struct:
		return g.object(t)
	case reflect.Map:
		if t == reflect.TypeFor[reader.Anything]() {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Slice:
		one := g.of(t.Elem())
		list := object{"type": "array", "items": one}
		if t.Elem().Kind() != reflect.Struct {
			list["minItems"] = 1
		}
		return anyOf(one, list)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "minimum": 0, "maximum": int64(math.MaxInt64)}
	}
	return object{"type": "string"}
}

// definitions are the names of sections in the schema, for types with other names.
var definitions = map[reflect.Type]string{
	reflect.TypeFor[local.Settings]():     "MemoryStore",
	reflect.TypeFor[remote.Settings]():    "RedisStore",
	reflect.TypeFor[remote.TLS]():         "RedisTLS",
	reflect.TypeFor[remote.Fallback]():    "LocalStore",
	reflect.TypeFor[secret.TLS]():         "UpstreamTLS",
	reflect.TypeFor[web.Settings]():       "HTTP",
	reflect.TypeFor[telemetry.Settings](): "Log",
	reflect.TypeFor[accesslog.Settings](): "AccessLog",
	reflect.TypeFor[tracing.Settings]():   "Tracing",
	reflect.TypeFor[audit.Settings]():     "Audit",
	reflect.TypeFor[webhook.Settings]():   "Webhook",
}

// object returns a reference to the schema of a struct.
func (g *schemaOf) object(t reflect.Type) object {
	section := cmp.Or(definitions[t], t.Name())
	ref := object{"$ref": "#/definitions/" + section}
	if _, made := g.defs.values[section]; made {
		return ref
	}
	g.defs.set(section, nil) // being made
	properties, required := ordered{}, []string{}
	for _, f := range reader.Fields(t) {
		name := f.Tag.Get("yaml")
		var p object
		if known := reader.Words(f.Tag); len(known) > 0 {
			p = object{"enum": known}
		} else if p = g.of(f.Type); f.Tag.Get("form") == "list" {
			p = p["anyOf"].([]any)[1].(object)
		}
		doc := g.doc(owner(t, f), f.Name)
		if doc == "" {
			g.t.Errorf("%s.%s has no comment", t.Name(), f.Name)
		}
		if rest, ok := strings.CutPrefix(doc, f.Name+" "); ok {
			doc = name + " " + rest
		} else {
			g.t.Errorf("the comment of %s.%s does not begin with its name", t.Name(), f.Name)
		}
		if rest := strings.TrimSuffix(doc, " Required."); rest != doc {
			doc, required = rest, append(required, name)
		}
		if p["$ref"] != nil { // beside which nothing counts
			p = object{"allOf": []any{p}}
		}
		p = maps.Clone(p)
		if value, rest, ok := literalDefault(f, doc); ok {
			p["default"], doc = value, rest
		}
		if unit := f.Tag.Get("unit"); unit != "" { // in words, because strict validators refuse keywords that they do not know
			doc += " Unit: " + unit + "."
		}
		p["description"] = doc
		properties.set(name, p)
	}
	fields := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		fields["required"] = required
	}
	if t == reflect.TypeFor[File]() {
		fields["patternProperties"] = object{"^x-": true}
	}
	all := fields
	switch s := reflect.New(t).Interface().(type) {
	case reader.Shorthand:
		var short []any
		for _, list := range []bool{false, true} {
			field := s.Short(list)
			if field == "" {
				continue
			}
			p := properties.values[field]
			if !slices.ContainsFunc(short, func(x any) bool { return reflect.DeepEqual(x, p) }) {
				short = append(short, p)
			}
		}
		all = anyOf(append(short, fields)...)
	case reader.Switch:
		all = anyOf(object{"type": "boolean"}, fields)
	case *Store:
		all = anyOf(object{"const": "memory"}, fields)
	}
	if doc := g.doc(t, ""); doc != "" {
		all = maps.Clone(all)
		if rest, ok := strings.CutPrefix(doc, t.Name()+" "); ok {
			doc = section + " " + rest
		}
		all["description"] = doc
	}
	g.defs.set(section, all)
	return ref
}

var defaults = regexp.MustCompile(` ?\bDefault: (.+?)\.(?: |$)`)

// literalDefault returns the default that a comment names if it is a value that a file may have, and
// the comment without it. Defaults in other words stay in the description.
func literalDefault(f reflect.StructField, doc string) (value any, rest string, ok bool) {
	m := defaults.FindStringSubmatch(doc)
	if m == nil {
		return nil, doc, false
	}
	rest = strings.TrimSpace(strings.Replace(doc, m[0], " ", 1))
	words := reader.Words(f.Tag)
	word, quoted := m[1], strings.HasPrefix(m[1], `"`)
	switch {
	case quoted:
		return strings.Trim(word, `"`), rest, true
	case slices.Contains(words, word):
		return word, rest, true
	case word == "true" || word == "false":
		return word == "true", rest, true
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n, rest, true
	}
	if x, err := strconv.ParseFloat(word, 64); err == nil {
		return x, rest, true
	}
	for _, pattern := range patternsOf(texts[f.Type]) {
		if pattern.MatchString(word) {
			return word, rest, true
		}
	}
	return nil, doc, false
}

// doc returns the comment of a type or, if a field is given, of the field.
func (g *schemaOf) doc(t reflect.Type, field string) string {
	g.t.Helper()
	if !g.read[t.PkgPath()] {
		g.read[t.PkgPath()] = true
		g.readComments(t.PkgPath())
	}
	return g.docs[strings.TrimSuffix(t.PkgPath()+"."+t.Name()+"."+field, ".")]
}

// readComments reads the comments of a package's types and fields.
func (g *schemaOf) readComments(path string) {
	g.t.Helper()
	files, err := filepath.Glob(strings.Replace(path, "github.com/sluicehq/sluice", "../../..", 1) + "/*.go")
	if err != nil {
		g.t.Fatal(err)
	}
	clean := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			g.t.Fatal(err)
		}
		for _, d := range f.Decls {
			all, ok := d.(*ast.GenDecl)
			if !ok || all.Tok != token.TYPE {
				continue
			}
			for _, s := range all.Specs {
				spec := s.(*ast.TypeSpec)
				name := path + "." + spec.Name.Name
				g.docs[name] = clean(all.Doc)
				fields, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range fields.Fields.List {
					for _, n := range field.Names {
						g.docs[name+"."+n.Name] = clean(field.Doc)
					}
				}
			}
		}
	}
}

// owner returns the struct that has a field of a section: the section itself, or one that it embeds.
func owner(section reflect.Type, f reflect.StructField) reflect.Type {
	for _, i := range f.Index[:len(f.Index)-1] {
		section = section.Field(i).Type
	}
	return section
}

// TestSchemaMatchesTypes compares schema.json with the types. go generate writes it.
func TestSchemaMatchesTypes(t *testing.T) {
	g := &schemaOf{t: t, docs: map[string]string{}, read: map[string]bool{}}
	root := g.of(reflect.TypeFor[File]())
	if len(g.docs) < 100 || len(g.defs.keys) < 20 {
		t.Fatalf("found %d comments and %d types", len(g.docs), len(g.defs.keys))
	}
	for _, name := range g.values.keys {
		g.defs.set(name, g.values.values[name])
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
		if err := os.WriteFile("../../../policyfile/schema.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), policyfile.Schema()) {
		t.Error("policyfile/schema.json is stale: run go generate ./server/internal/config")
	}
}

// TestPatternsAcceptWhatReadersAccept makes texts at random. No schema refuses a text that
// its reader accepts.
func TestPatternsAcceptWhatReadersAccept(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"1", "0", "10", "401", "5xx", "599", ".", "/", "%", "s", "m", "h", "d", "w", "ms", "us", "µs", "ns", "B", "kB", "KiB", "MB", "_", ":", "-", "2001:db8::", "192.0.2.1", "::ffff:", "/8", "/128", "0.5", "+", "", "e", "32"}
	patterns, taken := make([][]*regexp.Regexp, len(valueTypes)), make([]int, len(valueTypes))
	for i, v := range valueTypes {
		patterns[i] = patternsOf(v.form)
	}
	for range 40_000 {
		s := ""
		for range 1 + rnd.IntN(5) {
			s += pieces[rnd.IntN(len(pieces))]
		}
		for i, v := range valueTypes {
			if problem, _ := reader.Parse(reflect.New(v.of).Elem(), s); problem != "" {
				continue
			}
			taken[i]++
			if !slices.ContainsFunc(patterns[i], func(p *regexp.Regexp) bool { return p.MatchString(s) }) {
				t.Fatalf("%s: %q is read, and refused by %v", v.name, s, patterns[i])
			}
		}
	}
	for i, v := range valueTypes {
		if taken[i] < 20 {
			t.Errorf("%s: only %d texts were taken", v.name, taken[i])
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

// within are files that lack one setting of a definition, %s, so that TestSchemaHasTheRealDefaults can give it or leave it out.
var within = map[string]string{
	"Drain":               "drain: {%s}",
	"Listener.reuse_port": "listen: {proxy: {address: 127.0.0.1:1, %s}}",
	"File":                "%s",
	"MemoryStore":         "store: {memory: {file: states, %s}}",
	"RedisStore":          "store: {redis: {addresses: [127.0.0.1:6379], %s}}",
	"Listen":              "listen: {%s}",
	"TLS":                 "listen: {proxy: {address: 127.0.0.1:1, tls: {cert: a, key: b, %s}}}",
	"Upstream":            "upstream: {url: http://127.0.0.1:3000, %s}",
	"UpstreamTLS":         "upstream: {url: https://127.0.0.1:3000, tls: {%s}}",
	"Paths":               "paths: {%s}",
	"HTTP":                "http: {%s}",
	"API":                 "api: {%s}",
	"Log":                 "log: {%s}",
	"Tracing":             "tracing: {endpoint: 'http://127.0.0.1:4318', %s}",
	"AccessLog":           "access_log: {file: stdout, %s}",
	"Webhook":             "scale_out: {webhook: {url: http://127.0.0.1:1, secret_env: A, %s}}",
	"Class":               "classes: [{name: a, match: {path: /a}, %s}]",
	"ValueMatch":          "rules: [{name: a, match: {header: {X-A: {%s}}}, key: global, limit: {algorithm: token_bucket, rate: 5/s}}]",
	"Rule":                "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}, %s}]",
	"Descriptor":          "rules: [{name: a, descriptor: {domain: d, entries: [a], %s}, limit: {algorithm: fixed_window, rate: 5/s}}]",
	"KeyPart":             "rules: [{name: a, key: {part: client_ip, %s}, limit: {algorithm: token_bucket, rate: 5/s}}]",
	"Hybrid":              "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 1000/s}, hybrid: {%s}}]",
	"Cost":                "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}, cost: {%s}}]",
	"Ahead":               "rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/s}, ahead: {units: 5, for: 1h, %s}}]",
	"Ban":                 "rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/s}, ban: {after: 5, for: 1h, %s}}]",
	"WhenLimited":         "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}, when_limited: {body: a, %s}}]",

	"DescriptorEntry":         "rules: [{name: a, descriptor: {domain: d, entries: [{key: a, value: a*, %s}]}, limit: {algorithm: fixed_window, rate: 5/s}}]",
	"Descriptor.period":       "rules: [{name: a, descriptor: {domain: d, entries: [a], %s}, always: true}]",
	"Listener.proxy_protocol": "trusted_proxies: [10.0.0.0/8]\nlisten: {proxy: {address: 127.0.0.1:8080, %s}}\n",
	"Rule.max_waiting":        "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}, max_wait: 1s, %s}]",
	"Limit.starts":            "rules: [{name: a, key: global, limit: {algorithm: fixed_window, rate: 5/s, %s}}]",
	"Limit.count_denied":      "rules: [{name: a, key: global, limit: {algorithm: sliding_log, rate: 5/s, %s}}]",
	"Limit.min_interval":      "rules: [{name: a, key: global, limit: {algorithm: sliding_log, rate: 5/s, %s}}]",
	"Limit.zone":              "rules: [{name: a, key: global, limit: {algorithm: fixed_window, rate: 5/d, calendar: day, %s}}]",
	"Limit.cells":             "rules: [{name: a, key: global, limit: {algorithm: sliding_window, rate: 5/s, %s}}]",
	"Limit.queue":             "rules: [{name: a, key: global, limit: {algorithm: leaky_bucket, rate: 5/s, %s}}]",
	"Limit.undelayed":         "rules: [{name: a, key: global, limit: {algorithm: leaky_bucket, rate: 5/s, queue: 5, %s}}]",
	"Limit.ttl":               "rules: [{name: a, key: global, limit: {algorithm: concurrency, max: 5, %s}}]",
	"Limit.warm_up":           "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s, %s}}]",
	"Limit.cold_factor":       "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s, warm_up: 1s, %s}}]",
	"Cost.estimate":           "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}, cost: {source: request_bytes, %s}}]",
	"Cost.units":              "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}, cost: {header: X-A, %s}}]",
	"Cost.format":             models,
	"Cost.body":               models,
	"Cost.bytes_per_token":    models,
	"Cost.on_leave":           models,
	"Cost.include_usage":      models,
	"Cost.prices":             models,
	"Price":                   "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 10000/s}, cost: {source: model, prices: [{model: a, %s}]}}]",
	"Cost.max":                "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}, cost: {header: X-A, %s}}]",
}

// models is a rule with a cost of models.
const models = "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 10000/s}, cost: {source: model, %s}}]"

// elsewhere are defaults that other packages fill in when they use a setting: memory, policy and the server's edges.
var elsewhere = []string{"Descriptor.period", "MemoryStore.max_size", "LocalStore.max_size", "Rule.cost", "Cost.units", "Cost.format", "Cost.body", "Cost.bytes_per_token", "Cost.on_leave", "WhenLimited.content_type", "TLS.min_version", "Listener.mode"}

// TestSchemaHasTheRealDefaults gives each setting the default of the schema, and finds that nothing changes.
func TestSchemaHasTheRealDefaults(t *testing.T) {
	var s struct {
		Definitions map[string]struct {
			Properties map[string]struct{ Default any }
			AnyOf      []struct {
				Properties map[string]struct{ Default any }
			}
		}
	}
	if err := json.Unmarshal(policyfile.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for name, d := range s.Definitions {
		properties := d.Properties
		for _, form := range d.AnyOf {
			if form.Properties != nil {
				properties = form.Properties
			}
		}
		for setting, p := range properties {
			at := name + "." + setting
			file := within[at]
			if file == "" {
				file = within[name]
			}
			switch {
			case p.Default == nil || slices.Contains(elsewhere, at):
				continue
			case file == "":
				t.Errorf("%s has a default, and within has no file for it", at)
				continue
			}
			tried++
			value, err := json.Marshal(p.Default)
			if err != nil {
				t.Fatal(err)
			}
			without := effect(t, fmt.Sprintf(file, ""))
			if with := effect(t, fmt.Sprintf(file, setting+": "+string(value))); !reflect.DeepEqual(with, without) {
				t.Errorf("%s: %s is not the default:\n%+v\n%+v", at, value, with, without)
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d settings have a default", tried)
	}
}

// effect returns what a file means: its settings, and its rules as the policy has them.
func effect(t *testing.T, text string) any {
	t.Helper()
	f, err := Parse("x.yaml", []byte("version: 1\n"+text+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		t.Fatal(err)
	}
	of := *f
	of.File = rules.File{IPv6Prefix: f.IPv6Prefix, Paths: f.Paths, Default: f.Default, OnStoreError: f.OnStoreError, Shadow: f.Shadow, Classes: f.Classes, Domains: f.Domains}
	var made []policy.Rule
	for _, r := range p.Rules() {
		made = append(made, *r)
		last := &made[len(made)-1]
		last.Limits = nil
		for _, l := range r.Limits {
			last.Candidate = append(last.Candidate, sluice.MustLimit("", l.Algorithm())) // the names are not of interest
		}
	}
	return []any{of, made}
}
