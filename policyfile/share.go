package policyfile

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Share is a part of the whole, Of/Parts in lowest terms, more than zero and up to
// one. It is written 1/4, 25% or 0.25. The zero Share is none.
type Share struct {
	Of, Parts int64
}

// maxParts bounds the parts of a share.
const maxParts = 1_000_000

// String returns the share as a fraction, such as 1/4.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Of, s.Parts) }

// ParseShare reads a share. The problem says what is wrong with the text, and is
// empty if it is one.
func ParseShare(text string) (s Share, problem string) {
	const longest = 32 // a number may be written with an exponent of its own
	number, percent := strings.CutSuffix(text, "%")
	r := new(big.Rat)
	if len(text) > longest || strings.ContainsAny(number, "eEpPxXoObB_+ ") || percent && strings.Contains(number, "/") {
		return s, "is no share"
	}
	if _, ok := r.SetString(number); !ok {
		return s, "is no share"
	}
	if percent {
		r.Quo(r, big.NewRat(100, 1))
	}
	switch {
	case r.Sign() <= 0:
		return s, "is nothing"
	case r.Cmp(big.NewRat(1, 1)) > 0:
		return s, "is more than all"
	case r.Denom().Cmp(big.NewInt(maxParts)) > 0:
		return s, fmt.Sprintf("has more than %d parts", maxParts)
	}
	return Share{r.Num().Int64(), r.Denom().Int64()}, ""
}

func readShare(d *decoder, path string, n ast.Node, v reflect.Value) {
	var text string
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text = n.GetToken().Value
	default:
		var ok bool
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	s, problem := ParseShare(text)
	if problem != "" {
		remedy := "write it as in 1/4, 25% or 0.25"
		if strings.HasPrefix(path, "store.") {
			remedy += ": one of four servers has 1/4"
		}
		d.report(path, quote(text)+" "+problem, remedy)
		return
	}
	v.Set(reflect.ValueOf(s))
}
