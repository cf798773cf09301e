// Package replay decides about the requests of a log as a server with a policy would have decided about them: the same
// code decides, over a store in memory whose clock has the times of the log.
package replay

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// Policy is a policy, and the settings of a server on which its decisions depend.
type Policy struct {
	Name           string // for the report, such as the name of the file
	Options        policy.Options
	IPv6Prefix     int            // bits of an IPv6 address that identify a client
	Trusted        []netip.Prefix // proxies whose forwarding headers are believed
	TrustUnix      bool
	TrustMarks     bool
	MethodOverride bool // the service takes the method from headers
}

// Assumption is a value that all requests are assumed to have, such as header:X-Plan=free.
type Assumption struct {
	Name  logs.Name
	Value string
}

// sources are the kinds of values that a log can have in fields of its own, by their names in logs.Name.
var sources = map[source.Kind]string{
	policy.FromHeader: "header", policy.FromCookie: "cookie", policy.FromQuery: "query", policy.FromClaim: "claim", source.Attribute: "attribute",
}

// response is the source of headers of responses in logs.Name.
const response = "response"

// Wanted returns the names that the rules of a policy read, for logs.Options.Wanted.
func (p *Policy) Wanted() ([]logs.Name, error) {
	compiled, err := policy.New(p.Options)
	if err != nil {
		return nil, err
	}
	var names []logs.Name
	for kind, text := range sources {
		for _, name := range compiled.ReadNames(kind) {
			names = append(names, NameOf(text, name))
		}
	}
	for _, r := range compiled.Rules() {
		if r.Cost.Source == policy.CostResponseHeader {
			names = append(names, NameOf(response, r.Cost.Header))
		}
	}
	if len(p.Trusted) > 0 || p.TrustUnix {
		names = append(names, NameOf("header", "X-Forwarded-For"))
	}
	slices.SortFunc(names, func(a, b logs.Name) int { return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name)) })
	return names, nil
}

// NameOf returns a name in its canonical spelling.
func NameOf(from, name string) logs.Name {
	if from == "header" || from == response {
		name = http.CanonicalHeaderKey(name)
	}
	return logs.Name{Source: from, Name: name}
}

// check returns an error for options that the log does not fit.
func (o *Options) check(l *logs.Layout) error {
	c := &coverage{layout: l}
	for _, a := range o.Assumed {
		if c.has(a.Name) {
			return fmt.Errorf("the log has %s:%s, so no value of it can be assumed; leave --assume out", a.Name.Source, a.Name.Name)
		}
	}
	c.assumed = o.Assumed
	if n := o.Client; n.Source != "" && !c.has(n) {
		lack := c.lackOf(n)
		return fmt.Errorf("clients are by %s, which the log lacks: %s", lack.what, lack.remedy)
	}
	return nil
}

// coverage finds what a log lacks.
type coverage struct {
	layout  *logs.Layout
	assumed []Assumption
	open    bool // leases end when the verdicts of the log need it: see engine.open
}

// has reports whether the log has a value, or the value is assumed.
func (c *coverage) has(n logs.Name) bool {
	switch {
	case n == logs.Name{Source: "header", Name: "Host"}:
		return c.layout.Has&logs.HasHost != 0
	case n.Source == "query" && c.layout.Has&logs.HasQuery != 0:
		return true
	case n.Source == "cookie" && c.layout.Index("header", "Cookie") >= 0:
		return true
	case n.Source == "claim" && c.layout.Index("header", "Authorization") >= 0:
		return true
	}
	return c.layout.Index(n.Source, n.Name) >= 0 || slices.ContainsFunc(c.assumed, func(a Assumption) bool { return a.Name == n })
}

// lack is what a rule needs and the log does not have, and what to do about it.
type lack struct{ what, remedy string }

// client, host and such are what a log lacks without a name.
var (
	noClient   = lack{"the address of the client", "log it, as nginx does with $remote_addr"}
	noHost     = lack{"the host of the request", "log it, as nginx does with $host"}
	noDuration = lack{"how long requests took", "log it, as nginx does with $request_time"}
	noStatus   = lack{"the status of the response", "log it, as nginx does with $status"}
	noSent     = lack{"the size of the response", "log it, as nginx does with $body_bytes_sent"}
	noReceived = lack{"the size of the request's body", "log it, as nginx does with $content_length"}
	gateways   = lack{"descriptors, which only gateways send", "replay the log of a proxy with rules that match requests"}
)

func (c *coverage) lackOf(n logs.Name) lack {
	text := n.Source + ":" + n.Name
	assume := "assume a value with --assume " + text + "=VALUE"
	if c.layout.Format == "sluice" {
		return lack{text, "Sluice does not log it, so replay the log of another server, or " + assume}
	}
	return lack{text, "log it and add --set " + text + "=field:NAME, or " + assume + "; sluice logformat prints a format"}
}

// ofValues returns what is lacking of named values.
func (c *coverage) ofValues(read []source.Value) (lacks []lack) {
	for _, v := range read {
		switch v.Source {
		case source.ClientIP:
			lacks = c.need(lacks, true, logs.HasClient, noClient)
		case source.Host:
			lacks = c.need(lacks, true, logs.HasHost, noHost)
		default:
			if from, ok := sources[v.Source]; ok && !c.has(NameOf(from, v.Name)) {
				lacks = append(lacks, c.lackOf(NameOf(from, v.Name)))
			}
		}
	}
	return lacks
}

// need adds what is lacking if a field is needed and the log does not have it.
func (c *coverage) need(lacks []lack, needed bool, f logs.Fields, l lack) []lack {
	if needed && c.layout.Has&f == 0 {
		lacks = append(lacks, l)
	}
	return lacks
}

// withExceptions returns a match and all matches in its exceptions.
func withExceptions(m *policy.Match) []*policy.Match {
	all := []*policy.Match{m}
	for i := range m.Unless {
		all = append(all, withExceptions(&m.Unless[i])...)
	}
	return all
}

// ofMatch returns what is lacking of what a match reads without a name.
func (c *coverage) ofMatch(match *policy.Match) (lacks []lack) {
	for _, m := range withExceptions(match) {
		lacks = c.need(lacks, len(m.Hosts) > 0, logs.HasHost, noHost)
		lacks = c.need(lacks, len(m.ClientIPs) > 0, logs.HasClient, noClient)
		if m.Descriptor != nil {
			lacks = append(lacks, gateways)
		}
		for _, condition := range m.If {
			text := fmt.Sprint(condition)
			lacks = c.need(lacks, strings.Contains(text, "client_ip") || strings.Contains(text, "in_network"), logs.HasClient, noClient)
			lacks = c.need(lacks, strings.Contains(text, "host"), logs.HasHost, noHost)
			size, ok := condition.(interface{ UsesSize() bool })
			lacks = c.need(lacks, ok && size.UsesSize(), logs.HasReceived, noReceived)
		}
	}
	return lacks
}

// ofRule returns what is lacking for a rule.
func (c *coverage) ofRule(compiled *policy.Policy, r *policy.Rule) []lack {
	lacks := append(c.ofMatch(&r.Match), c.ofValues(compiled.RuleReads(r.Name))...)
	lacks = c.need(lacks, len(r.AllowIPs)+len(r.DenyIPs) > 0, logs.HasClient, noClient)
	lacks = c.need(lacks, len(r.CountStatus) > 0, logs.HasStatus, noStatus)
	lacks = c.need(lacks, r.Cost.Source == policy.CostRequestBytes, logs.HasReceived, noReceived)
	lacks = c.need(lacks, r.Cost.Source == policy.CostResponseBytes, logs.HasSent, noSent)
	if n := NameOf(response, r.Cost.Header); r.Cost.Source == policy.CostResponseHeader && !c.has(n) {
		lacks = append(lacks, lack{"the header " + n.Name + " of responses", "log it and add --set response:" + n.Name + "=field:NAME"})
	}
	leases := slices.ContainsFunc(slices.Concat(r.Limits, r.Candidate), (*sluice.Limit).IsConcurrency)
	return c.need(lacks, leases && !c.open, logs.HasDuration, noDuration)
}

// Unevaluated is a rule or a class that needs what the log lacks, and was left out.
type Unevaluated struct {
	Name   string `json:"name"`
	Class  bool   `json:"class,omitempty"`
	Lacks  string `json:"lacks"`
	Remedy string `json:"remedy"`
}

// within returns the options without the rules and classes that need what the log lacks.
func (c *coverage) within(o policy.Options) (policy.Options, []Unevaluated, error) {
	compiled, err := policy.New(o)
	if err != nil {
		return o, nil, err
	}
	var left []Unevaluated
	leave := func(name string, class bool, lacks []lack) {
		left = append(left, Unevaluated{name, class, lacks[0].what, lacks[0].remedy})
	}
	gone := map[string]bool{}
	classes := o.Classes
	o.Classes, o.Earlier = nil, nil
	for _, k := range classes {
		only, err := policy.New(policy.Options{Classes: []policy.Class{k}})
		if err != nil {
			return o, nil, err
		}
		if lacks := append(c.ofMatch(&k.Match), c.ofValues(only.ClassReads())...); len(lacks) > 0 {
			leave(k.Name, true, lacks)
			gone[k.Name] = true
			continue
		}
		o.Classes = append(o.Classes, k)
	}
	rules := o.Rules
	o.Rules = nil
	for _, r := range rules {
		lacks := c.ofRule(compiled, &r)
		if name := absent(&r, gone); name != "" {
			lacks = append(lacks, lack{"the class " + name + ", which needs what the log lacks", "make the class evaluable first"})
		}
		if len(lacks) > 0 {
			leave(r.Name, false, lacks)
			continue
		}
		o.Rules = append(o.Rules, r)
	}
	o.Plans = slices.Clone(o.Plans)
	for i := range o.Plans {
		o.Plans[i].Limits = maps.Clone(o.Plans[i].Limits)
		for _, u := range left {
			delete(o.Plans[i].Limits, u.Name)
		}
	}
	return o, left, nil
}

// absent returns the name of a class that a rule matches or reserves units for and that is gone; empty for none.
func absent(r *policy.Rule, gone map[string]bool) string {
	var names []string
	for _, m := range withExceptions(&r.Match) {
		names = append(names, m.Classes...)
	}
	for _, v := range r.Reserved {
		names = append(names, v.For...)
	}
	if i := slices.IndexFunc(names, func(n string) bool { return gone[n] }); i >= 0 {
		return names[i]
	}
	return ""
}
