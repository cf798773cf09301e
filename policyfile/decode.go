package policyfile

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// What aliases may grow a file to.
const (
	maxAliased = 100_000 // values read through aliases
	maxChain   = 20      // aliases within aliases
)

// decoder reads a tree into structs, and reports all that does not fit.
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
	d.values[""] = place(root)
	ast.Walk(d, root)
	d.value("", root, reflect.ValueOf(into).Elem())
}

// Visit collects the anchors.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil && a.Value != nil {
		name := a.Name.GetToken().Value
		if d.anchors[name] != nil {
			d.reportAt(place(a.Name), "", fmt.Sprintf("the anchor &%s is there twice", name), "give each its own name")
		}
		d.anchors[name] = a.Value
	}
	return d
}

// shorthand is a struct that may be written as a value alone, which sets one field.
type shorthand interface {
	// short returns the name of the field, for a list or for a single value.
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
	d.values[path] = place(n)
	if _, null := n.(*ast.NullNode); null {
		d.broken[path] = true
		d.report(path, "has no value", "give one, or remove the line")
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
		} else {
			d.wrong(path, n, "true or false")
		}
	case reflect.Int, reflect.Int64:
		d.integer(path, n, v)
	default: // a text; there are no fields of other kinds
		if text, ok := d.text(path, n); ok {
			v.SetString(text)
		}
	}
}

// resolve looks through anchors and aliases. It returns nil if there is nothing,
// and otherwise what to call after the value was read.
func (d *decoder) resolve(path string, n ast.Node) (ast.Node, func()) {
	depth := d.chain
	done := func() { d.chain = depth }
	for {
		switch a := n.(type) {
		case *ast.AnchorNode:
			n = a.Value
		case *ast.TagNode:
			d.reportAt(place(a), path, fmt.Sprintf("has the tag %s", a.GetToken().Value), "remove it; the setting itself says what it is")
			done()
			return nil, nil
		case *ast.AliasNode:
			name := a.Value.GetToken().Value
			target := d.anchors[name]
			switch {
			case target == nil:
				d.reportAt(place(a), path, fmt.Sprintf("*%s is an alias in YAML, of an anchor that is not there", name),
					fmt.Sprintf("put quotes around a text that begins with a star: %q", "*"+name))
			case d.chain >= maxChain:
				d.reportAt(place(a), path, fmt.Sprintf("the alias *%s leads through more than %d others, or to itself", name, maxChain), "write the value out")
			case d.aliased > maxAliased:
				if !d.tooMany { // once
					d.reportAt(place(a), path, fmt.Sprintf("aliases make more than %d values of the file", maxAliased), "use fewer")
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
	}
	if t := n.GetToken(); t != nil && !isMapping(n) && t.Type != token.SequenceStartType && t.Type != token.SequenceEntryType {
		d.report(path, fmt.Sprintf("is %s, and a text is wanted", show(path, n)), "put quotes around it")
	} else {
		d.wrong(path, n, "a text")
	}
	return "", false
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
		d.report(path, fmt.Sprintf("is %s, which is no number, or one too large", show(path, n)), "")
	default:
		v.SetInt(i)
	}
}

// wrong reports a value of the wrong type.
func (d *decoder) wrong(path string, n ast.Node, want string) {
	d.broken[path] = true
	d.report(path, fmt.Sprintf("is %s, and %s is wanted", show(path, n), want), "")
}
