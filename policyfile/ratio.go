package policyfile

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Ratio is a number of 0 or more, written 0.9, 1.5 or 90%.
type Ratio float64

var ratios = regexp.MustCompile(`^\d{1,6}(\.\d{1,6})?%?$`)

// ParseRatio reads a ratio.
func ParseRatio(text string) (Ratio, bool) {
	if !ratios.MatchString(text) {
		return 0, false
	}
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	return Ratio(x), err == nil
}

func readRatio(d *decoder, path string, n ast.Node, v reflect.Value) {
	text := n.GetToken().Value
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
	default:
		var ok bool
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	x, ok := ParseRatio(text)
	if !ok {
		d.report(path, quote(text)+" is no ratio", "write it as in 0.9, 1.5 or 90%")
		return
	}
	v.SetFloat(float64(x))
}

// String returns the ratio as a number.
func (r Ratio) String() string { return fmt.Sprint(float64(r)) }
