package reader

import (
	"cmp"
	"errors"
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
	*Source
	anchors map[string]ast.Node
	chain   int // aliases being read
	aliased int // values read through them
	tooMany bool
}

// Decode reads the text into a struct. It reports whether the text is YAML; values that do not fit are mistakes of the
// source.
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
	_, whole := n.(*ast.IntegerNode)
	text := strings.ReplaceAll(n.GetToken().Value, "_", "")
	i, err := strconv.ParseInt(text, 0, v.Type().Bits())
	switch {
	case !whole && !errors.Is(err, strconv.ErrRange): // the parser takes a number that is too large for a text
		d.wrong(at, n, "a whole number")
	case strings.HasPrefix(text, "-"):
		d.Report(at.path, fmt.Sprintf("is %s", d.show(at, n)), "give 0 or more")
	case err != nil:
		d.Report(at.path, fmt.Sprintf("is %s, which is too large", text), fmt.Sprintf("give %d at most", uint64(1)<<(v.Type().Bits()-1)-1))
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
	if i := slices.Index(strings.Fields(at.tag.Get("oneof")), text); i >= 0 && text != noWord {
		v.SetUint(uint64(i))
		return
	}
	d.Report(at.path, Quote(text)+" is unknown", DidYouMean(text, Words(at.tag)))
}

// noWord is in the tag oneof of a number in place of the words for numbers that cannot be written.
const noWord = "-"

// Words returns the words that a field accepts; none if it accepts others.
func Words(tag reflect.StructTag) []string {
	return slices.DeleteFunc(strings.Fields(tag.Get("oneof")), func(word string) bool { return word == noWord })
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
