package policyfile

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Ratio is a number of 0 or more, written 0.9, 1.5 or 90%. In a file, one above 10 needs its
// percent sign, for who writes 90 means nine tenths.
type Ratio float64

// mostPlain is the largest ratio that a file may have without a percent sign.
const mostPlain = 10

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
	if x > mostPlain && !strings.HasSuffix(text, "%") {
		d.report(path, quote(text)+" means "+decimal(x*100)+"%", "write "+decimal(x)+"% or "+decimal(x/100))
		return
	}
	v.SetFloat(float64(x))
}

// decimal writes a ratio without what dividing by a hundred leaves behind the last digit.
func decimal(r Ratio) string { return strconv.FormatFloat(float64(r), 'g', 14, 64) }

// String returns the ratio as a number.
func (r Ratio) String() string { return fmt.Sprint(float64(r)) }
