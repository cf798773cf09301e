package policyfile

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluicehq/sluice/policy"
)

var statuses = regexp.MustCompile(`^(\d)xx$|^(\d{3})-(\d{3})$|^\d{3}$`)

// readStatus reads 401, 4xx or 500-503.
func readStatus(d *decoder, path string, n ast.Node, v reflect.Value) {
	const example = "write it as in 401, 4xx or 500-503"
	if isMapping(n) {
		d.wrong(path, n, "a status")
		return
	}
	text := n.GetToken().Value
	if _, ok := n.(*ast.IntegerNode); !ok {
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	m := statuses.FindStringSubmatch(text)
	if m == nil {
		suggestion := example
		if lower := strings.ToLower(text); statuses.MatchString(lower) {
			suggestion = "write " + lower
		}
		d.report(path, quote(text)+" is no status", suggestion)
		return
	}
	number := func(s string) int {
		i, _ := strconv.Atoi(s) // three digits at most
		return i
	}
	r := policy.Status(number(text))
	switch {
	case m[1] != "":
		r = policy.StatusRange{From: 100 * number(m[1]), To: 100*number(m[1]) + 99}
	case m[2] != "":
		r = policy.StatusRange{From: number(m[2]), To: number(m[3])}
	}
	if r.From < 100 || r.To > 599 || r.From > r.To {
		d.report(path, quote(text)+" has no status from 100 to 599", example)
		return
	}
	v.Set(reflect.ValueOf(r))
}
