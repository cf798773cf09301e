package policyfile

import (
	"fmt"
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
	*source
	anchors map[string]ast.Node
	chain   int // aliases being read
	aliased int // values read through them
	tooMany bool
}

// decode reads the tree into a struct.
func (s *source) decode(root ast.Node, into any) {
	d := &decoder{source: s, anchors: map[string]ast.Node{}}
	d.values[""] = position(root)
	ast.Walk(d, root)
	d.value("", root, reflect.ValueOf(into).Elem())
}

// Visit collects the anchors.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil && a.Value != nil {
		name := a.Name.GetToken().Value
		if d.anchors[name] != nil {
			d.reportAt(position(a.Name), "", fmt.Sprintf("the anchor &%s is there twice", name), "give each its own name")
		}
		d.anchors[name] = a.Value
	}
	return d
}

// shorthand is a struct that may also be written as a single value, which sets one field.
type shorthand interface {
	// short returns the name of the field that takes a list, or that takes a single value.
	short(list bool) string
}

// single returns the field for a single value only.
func single(field string, list bool) string {
	if list {
		return ""
	}
	return field
}

// value reads a node.
func (d *decoder) value(path string, n ast.Node, v reflect.Value) {
	if d.full() {
		return
	}
	n, done := d.resolve(path, n)
	if n == nil {
		return
	}
	defer done()
	d.values[path] = position(n)
	if _, null := n.(*ast.NullNode); null {
		if d.foreign {
			delete(d.keys, path) // it is as if it were not there
			return
		}
		d.broken[path] = true
		remedy := "give one, or remove the line"
		if path == "rules" { // a file without rules may be a mistake, too
			remedy = "give rules, or write rules: [] for none"
		}
		d.report(path, "has no value", remedy)
		return
	}
	if read := readers[v.Type()]; read != nil {
		read(d, path, n, v)
		return
	}
	if own, ok := v.Addr().Interface().(interface {
		read(d *decoder, path string, n ast.Node)
	}); ok {
		own.read(d, path, n)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(path, n, v.Elem())
	case reflect.Struct:
		d.object(path, n, v)
	case reflect.Map:
		d.dictionary(path, n, v)
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
		} else if word, ok := d.oldBool(n); ok {
			v.SetBool(word)
		} else {
			d.wrong(path, n, "true or false")
		}
	case reflect.Int, reflect.Int64:
		d.integer(path, n, v)
	default: // a text: fields have no other kind
		if text, ok := d.text(path, n); ok {
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
			d.reportAt(position(a), path, fmt.Sprintf("has the tag %s", a.GetToken().Value), "remove it; the setting itself says what it is")
			done()
			return nil, nil
		case *ast.AliasNode:
			name := a.Value.GetToken().Value
			target := d.anchors[name]
			switch {
			case target == nil:
				d.reportAt(position(a), path, fmt.Sprintf("*%s is an alias in YAML, of an anchor that is not there", name),
					fmt.Sprintf("put quotes around a text that begins with a star: %q", "*"+name))
			case d.chain >= maxChain:
				d.reportAt(position(a), path, fmt.Sprintf("the alias *%s leads through more than %d others, or to itself", name, maxChain), "write the value out")
			case d.aliased > maxAliased:
				if !d.tooMany { // once
					d.reportAt(position(a), path, fmt.Sprintf("aliases make more than %d values of the file", maxAliased), "use fewer")
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
func (d *decoder) list(path string, n ast.Node, v reflect.Value) {
	nodes := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		if nodes = seq.Values; len(nodes) == 0 && v.Type().Elem().Kind() != reflect.Struct {
			d.report(path, "is an empty list", "give an entry, or remove the line")
		}
	} else if v.Type() == reflect.TypeFor[[]Rule]() || v.Type() == reflect.TypeFor[[]Limit]() {
		d.wrong(path, n, "a list, each entry of which begins with a dash")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(nodes), len(nodes)))
	for i, e := range nodes {
		d.value(path+"["+strconv.Itoa(i)+"]", plain(e), v.Index(i))
	}
}

// text reads a text.
func (d *decoder) text(path string, n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		if d.foreign {
			return n.GetToken().Value, true
		}
	}
	if t := n.GetToken(); t != nil && !isMapping(n) && t.Type != token.SequenceStartType && t.Type != token.SequenceEntryType {
		remedy := "put quotes around it"
		if strings.HasPrefix(path, "listen.") && (strings.Count(path, ".") == 1 || strings.HasSuffix(path, ".address")) {
			remedy = "write host:port, as in 127.0.0.1:" + show(path, n)
		}
		d.report(path, fmt.Sprintf("is %s, and a text is wanted", show(path, n)), remedy)
	} else {
		d.wrong(path, n, "a text")
	}
	return "", false
}

// oldBool reads a word that YAML 1.1 takes for true or false, in a foreign file.
func (d *decoder) oldBool(n ast.Node) (value, ok bool) {
	text, isText := n.(*ast.StringNode)
	if !isText || !d.foreign {
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
func (d *decoder) integer(path string, n ast.Node, v reflect.Value) {
	if _, ok := n.(*ast.IntegerNode); !ok {
		d.wrong(path, n, "a whole number")
		return
	}
	text := strings.ReplaceAll(n.GetToken().Value, "_", "")
	i, err := strconv.ParseInt(text, 0, v.Type().Bits())
	switch {
	case strings.HasPrefix(text, "-"):
		d.report(path, fmt.Sprintf("is %s", show(path, n)), "give 0 or more")
	case err != nil:
		d.report(path, fmt.Sprintf("is %s, which is not a number, or is too large", show(path, n)), "")
	default:
		v.SetInt(i)
	}
}

// wrong reports a value of the wrong type.
func (d *decoder) wrong(path string, n ast.Node, want string) {
	remedy := ""
	switch name := path[strings.LastIndexByte(path, '.')+1:]; {
	case strings.HasPrefix(want, "a list,"):
		remedy = fmt.Sprintf("write %s: and below it, further to the right, - before the first setting of each entry", name)
	case path == "version":
		remedy = "write version: 1"
	case path == "store.redis":
		remedy = "write it as in redis: {addresses: [127.0.0.1:6379]}"
	case strings.HasPrefix(want, "a whole number"):
		remedy = fmt.Sprintf("write it as in %s: 10", name)
	case path == "":
		remedy = `begin the file with "version: 1"`
	case n.Type() == ast.SequenceType && (name == "allow" || name == "deny"):
		remedy = fmt.Sprintf("name what is listed, as in %s: {client_ip: [192.0.2.0/24]}", name)
	case strings.HasSuffix(path, "]") && strings.HasPrefix(want, "a mapping"):
		remedy = "write its settings as name: value, one below the other"
	case strings.HasPrefix(want, "a mapping"):
		remedy = fmt.Sprintf("write %s: and each setting below it, further to the right", name)
	}
	d.broken[path] = true
	d.report(path, fmt.Sprintf("is %s, and %s is wanted", show(path, n), want), remedy)
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
			d.reportAt(position(v.Key), child(path, key), fmt.Sprintf("%q is there twice", key), "remove one of them")
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
				d.reportAt(position(m), path, "<< merges a value that is not a mapping", "")
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
	d.reportAt(position(key), path, fmt.Sprintf("%s is not a name of a setting", strings.TrimSpace(key.GetToken().Value)), "put quotes around a name that YAML does not read as a text")
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
func (d *decoder) object(path string, n ast.Node, v reflect.Value) {
	if !isMapping(n) {
		_, list := n.(*ast.SequenceNode)
		if s, ok := v.Addr().Interface().(shorthand); ok && s.short(list) != "" {
			i := slices.Index(names(v.Type()), s.short(list))
			d.keys[path] = position(n)
			d.value(path, n, v.Field(i))
			return
		}
		d.wrong(path, n, "a mapping of "+oneOf(accepted(v.Type())))
		return
	}
	fields := names(v.Type())
	d.pairs(path, n, func(p pair) {
		at := child(path, p.name)
		i := slices.Index(fields, p.name)
		switch {
		case i >= 0 && p.name != "":
			d.keys[at] = position(p.key)
			d.value(at, p.value, v.Field(i))
			d.word(at, v.Type().Field(i), v.Field(i))
			if _, ok := d.values[at]; !ok {
				d.values[at] = position(p.key)
			}
		case path == "" && strings.HasPrefix(p.name, "x-"):
			// Free for YAML anchors.
		case d.foreign && envoyKeys[p.name] && strings.HasPrefix(v.Type().Name(), "envoy"):
			d.keys[at] = position(p.key)
			d.warn(at, "has no effect here", misplaced(p.name))
		default:
			known := accepted(v.Type())
			suggestion := didYouMean(p.name, known)
			if w := nearest(p.name, known); w != "" {
				d.at[child(path, w)] = true // "is missing" would be a consequence
			}
			if u, ok := v.Addr().Interface().(interface{ unknown(pair) string }); ok {
				if s := u.unknown(p); s != "" {
					suggestion = s
				}
			}
			d.reportAt(position(p.key), at, fmt.Sprintf("%q is unknown here", p.name), suggestion)
		}
	})
}

// word checks a text that must be one of several words.
func (d *decoder) word(path string, f reflect.StructField, v reflect.Value) {
	known := strings.Fields(f.Tag.Get("oneof"))
	if text := v.String(); len(known) > 0 && !d.at[path] && !slices.Contains(known, text) {
		d.report(path, quote(text)+" is unknown", didYouMean(text, known))
	}
}

// names returns the names of a struct's settings, by field; "" for a field that is not a setting.
func names(t reflect.Type) []string {
	list := make([]string, t.NumField())
	for i := range list {
		list[i] = t.Field(i).Tag.Get("yaml")
	}
	return list
}

// accepted returns the settings that a struct takes.
func accepted(t reflect.Type) []string {
	return slices.DeleteFunc(names(t), func(s string) bool { return s == "" })
}

// dictionary reads a mapping whose keys are free.
func (d *decoder) dictionary(path string, n ast.Node, v reflect.Value) {
	if !isMapping(n) {
		d.wrong(path, n, "a mapping")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(path, n, func(p pair) {
		at := child(path, p.name)
		d.keys[at] = position(p.key)
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(at, p.value, e)
		v.SetMapIndex(reflect.ValueOf(p.name), e)
	})
}
