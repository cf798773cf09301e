package policyfile

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluicehq/sluice/policy"
)

// Counts says which requests count: allowed, attempts, or those whose response has one
// of some statuses, such as 401, [401, 403] or 4xx.
type Counts struct {
	// Of is allowed, or attempts for denied ones too, which windows, counters and logs can count. Default: allowed.
	Of string `yaml:"of" oneof:"allowed attempts"`
	// Status are statuses of responses: 401, 4xx, 500-503.
	Status []policy.StatusRange `yaml:"status"`
}

// read reads a word, statuses, or a mapping.
func (c *Counts) read(d *decoder, path string, n ast.Node) {
	v := reflect.ValueOf(c).Elem()
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.SequenceNode:
		d.value(path, n, v.FieldByName("Status"))
	case *ast.StringNode:
		if statuses.MatchString(n.Value) {
			d.value(path, n, v.FieldByName("Status"))
			return
		}
		c.Of = n.Value
		if known := []string{"allowed", "attempts"}; n.Value != known[0] && n.Value != known[1] {
			d.report(path, quote(n.Value)+" is unknown", didYouMean(n.Value, append(known, "statuses such as 401 or 4xx")))
		}
	default:
		d.object(path, n, v)
	}
}

var statuses = regexp.MustCompile(`^(\d)xx$|^(\d{3})-(\d{3})$|^\d{3}$`)

// readStatus reads 401, 4xx or 500-503.
func readStatus(d *decoder, path string, n ast.Node, v reflect.Value) {
	text := n.GetToken().Value
	if _, ok := n.(*ast.IntegerNode); !ok {
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	m := statuses.FindStringSubmatch(text)
	if m == nil {
		suggestion := "write it as in 401, 4xx or 500-503"
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
		d.report(path, quote(text)+" has no status from 100 to 599", "write it as in 401, 4xx or 500-503")
		return
	}
	v.Set(reflect.ValueOf(r))
}

// build returns what counts.
func (c *Counts) build(s *source, path string) policy.Counts {
	if c.Of == "attempts" && len(c.Status) > 0 {
		s.follow(path+".status", "is given, and attempts count, of which denied ones have none", "give one of them")
		return policy.Counts{}
	}
	return policy.Counts{Attempts: c.Of == "attempts", Statuses: c.Status}
}
