package reader

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

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
