package reader

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// The bounds of what aliases may make of a file.
const (
	maxAliased = 100_000 // values read through aliases
	maxChain   = 20      // aliases within aliases
)

// decoder reads a tree into structs, and reports every value that does not fit.
type decoder struct {
	*Source
	anchors map[string]ast.Node
	chain   int // aliases being read
	aliased int // values read through them
	tooMany bool
}

// Decode reads the text into a struct. It reports whether the text is YAML; values that do not fit are mistakes of the source.
func (s *Source) Decode(into any) bool {
	root := s.tree(s.Data)
	if root == nil {
		return false
	}
	d := &decoder{Source: s, anchors: map[string]ast.Node{}}
	d.values[""] = position(root)
	ast.Walk(d, root)
	d.value(setting{}, root, reflect.ValueOf(into).Elem())
	return true
}

// setting is what is being read: its path, and the tag of its field.
type setting struct {
	path string
	tag  reflect.StructTag
}

// name returns the name of the setting.
func (at setting) name() string { return at.path[strings.LastIndexByte(at.path, '.')+1:] }

// Visit collects the anchors.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil && a.Value != nil {
		name := a.Name.GetToken().Value
		if d.anchors[name] != nil {
			d.ReportAt(position(a.Name), "", fmt.Sprintf("the anchor &%s is there twice", name), "give each its own name")
		}
		d.anchors[name] = a.Value
	}
	return d
}

// value reads a node.
func (d *decoder) value(at setting, n ast.Node, v reflect.Value) {
	if d.Full() {
		return
	}
	path := at.path
	n, done := d.resolve(path, n)
	if n == nil {
		return
	}
	defer done()
	d.values[path] = position(n)
	if _, null := n.(*ast.NullNode); null {
		if d.Foreign {
			delete(d.keys, path) // it is as if it were not there
			return
		}
		d.broken[path] = true
		d.Report(path, "has no value", cmp.Or(at.tag.Get("null"), "give one, or remove the line"))
		return
	}
	if f, ok := formOf(v.Type()); ok {
		d.written(at, n, v, f)
		return
	}
	if free, ok := v.Addr().Interface().(*Anything); ok {
		d.free(at, n, free)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(at, n, v.Elem())
	case reflect.Struct:
		d.object(at, n, v)
	case reflect.Map:
		d.dictionary(at, n, v)
	case reflect.Slice:
		d.list(at, n, v)
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
		} else if word, ok := d.oldBool(n); ok {
			v.SetBool(word)
		} else {
			d.wrong(at, n, "true or false")
		}
	case reflect.Int, reflect.Int64:
		d.integer(at, n, v)
	case reflect.Uint8:
		d.enum(at, n, v)
	default: // a text: fields have no other kind
		if text, ok := d.text(at, n); ok {
			v.SetString(text)
		}
	}
}

// resolve follows anchors and aliases. It returns the node, or nil if there is none, and
// a function to call after the value was read.
func (d *decoder) resolve(path string, n ast.Node) (ast.Node, func()) {
	depth := d.chain
	done := func() { d.chain = depth }
	for {
		switch a := n.(type) {
		case *ast.AnchorNode:
			n = a.Value
		case *ast.TagNode:
			d.ReportAt(position(a), path, fmt.Sprintf("has the tag %s", a.GetToken().Value), "remove it; the setting itself says what it is")
			done()
			return nil, nil
		case *ast.AliasNode:
			name := a.Value.GetToken().Value
			target := d.anchors[name]
			switch {
			case target == nil:
				d.ReportAt(position(a), path, fmt.Sprintf("*%s is an alias in YAML, of an anchor that is not there", name),
					fmt.Sprintf("put quotes around a text that begins with a star: %q", "*"+name))
			case d.chain >= maxChain:
				d.ReportAt(position(a), path, fmt.Sprintf("the alias *%s leads through more than %d others, or to itself", name, maxChain), "write the value out")
			case d.aliased > maxAliased:
				if !d.tooMany { // once
					d.ReportAt(position(a), path, fmt.Sprintf("aliases make more than %d values of the file", maxAliased), "use fewer")
				}
				d.tooMany = true
			default:
				d.chain++
				d.aliased++
				n = target
				continue
			}
			done()
			return nil, nil
		case nil:
			done()
			return nil, nil
		default:
			return n, done
		}
	}
}

// list reads a sequence, or a single value as a list of one.
func (d *decoder) list(at setting, n ast.Node, v reflect.Value) {
	nodes := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		if nodes = seq.Values; len(nodes) == 0 && v.Type().Elem().Kind() != reflect.Struct {
			d.Report(at.path, "is an empty list", "give an entry, or remove the line")
		}
	} else if at.tag.Get("form") == "list" {
		d.wrong(at, n, "a list, each entry of which begins with a dash")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(nodes), len(nodes)))
	for i, e := range nodes {
		d.value(setting{at.path + "[" + strconv.Itoa(i) + "]", ""}, plain(e), v.Index(i))
	}
}

// text reads a text.
func (d *decoder) text(at setting, n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		if d.Foreign {
			return n.GetToken().Value, true
		}
	}
	if t := n.GetToken(); t != nil && !isMapping(n) && t.Type != token.SequenceStartType && t.Type != token.SequenceEntryType {
		remedy := "put quotes around it"
		if begin := at.tag.Get("number"); begin != "" {
			remedy = begin + d.show(at, n)
		}
		d.Report(at.path, fmt.Sprintf("is %s, and a text is wanted", d.show(at, n)), remedy)
	} else {
		d.wrong(at, n, "a text")
	}
	return "", false
}

// show names a value in an error, unless it is a secret.
func (d *decoder) show(at setting, n ast.Node) string {
	hidden := secret(cmp.Or(at.tag.Get("yaml"), at.name()))
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		if hidden {
			return "a text"
		}
		text, _ := d.text(at, n)
		return "the text " + Quote(text)
	default:
		if hidden {
			return "no text"
		}
		return quoteless(n.GetToken().Value)
	}
}

// oldBool reads a word that YAML 1.1 takes for true or false, in a foreign file.
func (d *decoder) oldBool(n ast.Node) (value, ok bool) {
	text, isText := n.(*ast.StringNode)
	if !isText || !d.Foreign {
		return false, false
	}
	switch strings.ToLower(text.Value) {
	case "yes", "on", "y":
		return true, true
	case "no", "off", "n":
		return false, true
	}
	return false, false
}

// integer reads a whole number, which is never negative here.
func (d *decoder) integer(at setting, n ast.Node, v reflect.Value) {
	if _, ok := n.(*ast.IntegerNode); !ok {
		d.wrong(at, n, "a whole number")
		return
	}
	text := strings.ReplaceAll(n.GetToken().Value, "_", "")
	i, err := strconv.ParseInt(text, 0, v.Type().Bits())
	switch {
	case strings.HasPrefix(text, "-"):
		d.Report(at.path, fmt.Sprintf("is %s", d.show(at, n)), "give 0 or more")
	case err != nil:
		d.Report(at.path, fmt.Sprintf("is %s, which is not a number, or is too large", d.show(at, n)), "")
	default:
		v.SetInt(i)
	}
}

// enum reads a word as its number: its position in the tag oneof.
func (d *decoder) enum(at setting, n ast.Node, v reflect.Value) {
	text, ok := d.text(at, n)
	if !ok {
		return
	}
	if i := slices.Index(strings.Fields(at.tag.Get("oneof")), text); i >= 0 && text != NoWord {
		v.SetUint(uint64(i))
		return
	}
	d.Report(at.path, Quote(text)+" is unknown", DidYouMean(text, Words(at.tag)))
}

// NoWord is in the tag oneof of a number in place of the words for numbers that cannot be written.
const NoWord = "-"

// Words returns the words that a field accepts; none if it accepts others.
func Words(tag reflect.StructTag) []string {
	return slices.DeleteFunc(strings.Fields(tag.Get("oneof")), func(word string) bool { return word == NoWord })
}

// wrong reports a value of the wrong type.
func (d *decoder) wrong(at setting, n ast.Node, want string) {
	remedy := at.tag.Get("remedy")
	switch path, name := at.path, at.name(); {
	case strings.HasPrefix(want, "a list,"):
		remedy = fmt.Sprintf("write %s: and below it, further to the right, - before the first setting of each entry", name)
	case remedy != "":
	case strings.HasPrefix(want, "a whole number"):
		remedy = fmt.Sprintf("write it as in %s: 10", name)
	case path == "":
		remedy = strings.Replace(d.Begin, "begin with", "begin the file with", 1)
	case n.Type() == ast.SequenceType && at.tag.Get("sequence") != "":
		remedy = at.tag.Get("sequence")
	case strings.HasSuffix(path, "]") && strings.HasPrefix(want, "a mapping"):
		remedy = "write its settings as name: value, one below the other"
	case strings.HasPrefix(want, "a mapping"):
		remedy = fmt.Sprintf("write %s: and each setting below it, further to the right", name)
	}
	d.broken[at.path] = true
	d.Report(at.path, fmt.Sprintf("is %s, and %s is wanted", d.show(at, n), want), remedy)
}

// pair is one setting of a mapping.
type pair struct {
	name  string
	key   ast.Node
	value ast.Node
}

// pairs visits the settings of a mapping, its own first and the merged ones last.
func (d *decoder) pairs(path string, n ast.Node, visit func(pair)) {
	seen := map[string]bool{}
	d.merge(path, n, seen, visit)
}

func (d *decoder) merge(path string, n ast.Node, seen map[string]bool, visit func(pair)) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	}
	var merged []ast.Node
	own := map[string]bool{}
	for _, v := range values {
		if d.chain > 0 {
			d.aliased++
		}
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, v.Value)
			continue
		}
		key, ok := d.keyName(path, v.Key)
		if !ok {
			continue
		}
		if own[key] {
			d.ReportAt(position(v.Key), Child(path, key), fmt.Sprintf("%q is there twice", key), "remove one of them")
			continue
		}
		own[key] = true
		if seen[key] {
			continue // the nearer value wins over a merged one
		}
		seen[key] = true
		visit(pair{key, v.Key, v.Value})
	}
	for _, m := range merged {
		list := []ast.Node{m}
		if seq, ok := m.(*ast.SequenceNode); ok {
			list = seq.Values
		}
		for _, m := range list {
			target, done := d.resolve(path, m)
			if target == nil {
				continue
			}
			if !isMapping(target) {
				d.ReportAt(position(m), path, "<< merges a value that is not a mapping", "")
			} else {
				d.merge(path, target, seen, visit)
			}
			done()
		}
	}
}

// keyName returns the name of a setting.
func (d *decoder) keyName(path string, key ast.MapKeyNode) (string, bool) {
	if s, ok := key.(*ast.StringNode); ok {
		return s.Value, true
	}
	d.ReportAt(position(key), path, fmt.Sprintf("%s is not a name of a setting", strings.TrimSpace(key.GetToken().Value)), "put quotes around a name that YAML does not read as a text")
	return "", false
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// object reads a mapping into a struct.
func (d *decoder) object(at setting, n ast.Node, v reflect.Value) {
	path, into := at.path, v.Addr().Interface()
	if !isMapping(n) {
		d.short(at, n, v)
		return
	}
	if s, ok := into.(Switch); ok {
		*s.Switch() = true
	}
	if s, ok := into.(Defaulter); ok {
		s.SetDefaults()
	}
	fields := Fields(v.Type())
	d.pairs(path, n, func(p pair) {
		in := Child(path, p.name)
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("yaml") == p.name })
		if i >= 0 {
			f := fields[i]
			d.keys[in] = position(p.key)
			d.value(setting{in, f.Tag}, p.value, v.FieldByIndex(f.Index))
			d.word(in, f, v.FieldByIndex(f.Index))
			if _, ok := d.values[in]; !ok {
				d.values[in] = position(p.key)
			}
			return
		}
		if path == "" && strings.HasPrefix(p.name, "x-") {
			return // free for YAML anchors
		}
		if s, ok := into.(Ignorer); ok {
			if problem, suggestion := s.Ignored(p.name); problem != "" {
				d.keys[in] = position(p.key)
				d.Warn(in, problem, suggestion)
				return
			}
		}
		known := Accepted(v.Type())
		suggestion := DidYouMean(p.name, known)
		if w := Nearest(p.name, known); w != "" {
			d.at[Child(path, w)] = true // "is missing" would be a consequence
		}
		if s, ok := into.(Adviser); ok {
			text := ""
			if n, ok := p.value.(*ast.StringNode); ok {
				text = n.Value
			}
			suggestion = cmp.Or(s.Unknown(p.name, text), suggestion)
		}
		d.ReportAt(position(p.key), in, fmt.Sprintf("%q is unknown here", p.name), suggestion)
	})
}

// short reads a value that is not a mapping into a struct.
func (d *decoder) short(at setting, n ast.Node, v reflect.Value) {
	_, list := n.(*ast.SequenceNode)
	want := "a mapping of " + OneOf(Accepted(v.Type()))
	switch s := v.Addr().Interface().(type) {
	case Shorthand:
		if name := s.Short(list); name != "" {
			fields := Fields(v.Type())
			f := fields[slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("yaml") == name })]
			d.keys[at.path] = position(n)
			d.value(setting{at.path, f.Tag}, n, v.FieldByIndex(f.Index))
			return
		}
	case Switch:
		if b, ok := n.(*ast.BoolNode); ok {
			*s.Switch() = b.Value
			return
		}
		want = "true, or " + want
	case Worded:
		if text, ok := n.(*ast.StringNode); ok {
			if problem, suggestion, ok := s.Word(text.Value); ok {
				if problem != "" {
					d.broken[at.path] = true
					d.Report(at.path, Quote(text.Value)+" "+problem, suggestion)
				}
				return
			}
		}
	}
	d.wrong(at, n, want)
}

// word checks a text that must be one of several words.
func (d *decoder) word(path string, f reflect.StructField, v reflect.Value) {
	known := Words(f.Tag)
	if len(known) == 0 || v.Kind() != reflect.String || d.at[path] || slices.Contains(known, v.String()) {
		return
	}
	d.Report(path, Quote(v.String())+" is unknown", DidYouMean(v.String(), known))
}

// dictionary reads a mapping whose keys are free.
func (d *decoder) dictionary(at setting, n ast.Node, v reflect.Value) {
	if !isMapping(n) {
		d.wrong(at, n, "a mapping")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(at.path, n, func(p pair) {
		in := Child(at.path, p.name)
		d.keys[in] = position(p.key)
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(setting{path: in}, p.value, e)
		v.SetMapIndex(reflect.ValueOf(p.name), e)
	})
}

// Anything is a mapping of values of any kind, as package encoding/json has them.
type Anything map[string]any

// free reads a mapping of values of any kind.
func (d *decoder) free(at setting, n ast.Node, v *Anything) {
	if !isMapping(n) {
		d.wrong(at, n, "a mapping")
		return
	}
	if all, ok := d.anything(at.path, n).(map[string]any); ok {
		*v = all
	}
}

// anything reads a value of any kind.
func (d *decoder) anything(path string, n ast.Node) any {
	if d.Full() {
		return nil
	}
	n, done := d.resolve(path, n)
	if n == nil {
		return nil
	}
	defer done()
	switch v := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return v.Value
	case *ast.IntegerNode, *ast.FloatNode:
		x, err := strconv.ParseFloat(strings.ReplaceAll(n.GetToken().Value, "_", ""), 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			d.Report(path, fmt.Sprintf("is %s, which is not a decimal number", d.show(setting{path: path}, n)), "put quotes around it")
		}
		return x
	case *ast.SequenceNode:
		list := make([]any, len(v.Values))
		for i, e := range v.Values {
			list[i] = d.anything(fmt.Sprintf("%s[%d]", path, i), plain(e))
		}
		return list
	case *ast.MappingNode, *ast.MappingValueNode:
		all := map[string]any{}
		d.pairs(path, n, func(p pair) {
			in := Child(path, p.name)
			d.keys[in] = position(p.key)
			all[p.name] = d.anything(in, p.value)
		})
		return all
	}
	text, _ := d.text(setting{path: path}, n)
	return text
}
