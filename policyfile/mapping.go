package policyfile

import (
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

// pairs returns the settings of a mapping, those that it merges last.
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
			d.reportAt(place(v.Key), child(path, key), fmt.Sprintf("%q is there twice", key), "remove one of them")
			continue
		}
		own[key] = true
		if seen[key] {
			continue // what is nearer wins over what is merged
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
				d.reportAt(place(m), path, "<< merges what is no mapping", "")
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
	d.reportAt(place(key), path, fmt.Sprintf("%s is no name of a setting", strings.TrimSpace(key.GetToken().Value)), "names are texts; put quotes around one that looks like something else")
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
			d.keys[path] = place(n)
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
			d.keys[at] = place(p.key)
			d.value(at, p.value, v.Field(i))
			d.word(at, v.Type().Field(i), v.Field(i))
			if _, ok := d.values[at]; !ok {
				d.values[at] = place(p.key)
			}
		case path == "" && strings.HasPrefix(p.name, "x-"):
			// A place for anchors.
		default:
			known := accepted(v.Type())
			suggestion := didYouMean(p.name, known)
			if w := nearest(p.name, known); w != "" {
				d.at[child(path, w)] = true // that it is missing would be a consequence
			}
			if u, ok := v.Addr().Interface().(interface{ unknown(pair) string }); ok {
				if s := u.unknown(p); s != "" {
					suggestion = s
				}
			}
			d.reportAt(place(p.key), at, fmt.Sprintf("%q is unknown here", p.name), suggestion)
		}
	})
}

// word checks a text that is to be one of some.
func (d *decoder) word(path string, f reflect.StructField, v reflect.Value) {
	known := strings.Fields(f.Tag.Get("oneof"))
	if text := v.String(); len(known) > 0 && !d.at[path] && !slices.Contains(known, text) {
		d.report(path, quote(text)+" is unknown", didYouMean(text, known))
	}
}

// names returns the settings that a struct takes, by field; "" for those that are none.
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
		d.keys[at] = place(p.key)
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(at, p.value, e)
		v.SetMapIndex(reflect.ValueOf(p.name), e)
	})
}
