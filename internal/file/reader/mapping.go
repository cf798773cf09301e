package reader

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

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
