package policy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// rule is a Rule, checked and ready to decide.
type rule struct {
	Rule  // as it was given, but for the limits, which have the policy's names, and defaults
	match *matcher
	parts []Part
	// asks are the requests to the store, one for each limit, without key and cost.
	asks []sluice.Request
	// leases says which of them are for leases, and need a member.
	leases []bool
}

// compiler collects the mistakes of a policy's options.
type compiler struct {
	options Options
	index   int
	rule    string
	errs    []error
}

func (c *compiler) report(field, value, problem string) {
	c.errs = append(c.errs, &RuleError{Index: c.index, Rule: c.rule, Field: field, Value: value, Problem: problem})
}

// New compiles a policy. The error joins a *RuleError for each mistake.
func New(o Options) (*Policy, error) {
	c := &compiler{options: o, index: -1}
	if o.Default > Deny {
		c.report("Default", "", "is unknown; give Allow or Deny")
	}
	if o.OnStoreError > FallbackLocal {
		c.report("OnStoreError", "", "is unknown; give FallbackAllow, FallbackDeny or FallbackLocal")
	}
	if o.IPv6Prefix < 0 || o.IPv6Prefix > 128 {
		c.report("IPv6Prefix", "", fmt.Sprintf("is %d; give 1 to 128", o.IPv6Prefix))
	}
	if o.IPv6Prefix == 0 {
		c.options.IPv6Prefix = 64
	}
	if o.OnStoreError == FallbackDefault {
		c.options.OnStoreError = FallbackAllow
	}
	p := &Policy{paths: o.Paths, fallback: o.Default, onStoreError: c.options.OnStoreError, byName: make(map[string]*rule, len(o.Rules))}
	for i := range o.Rules {
		r := c.compile(i, &o.Rules[i])
		if p.byName[r.Name] != nil {
			c.report("Name", r.Name, "is that of another rule too; give each its own, for its state is kept under it")
		}
		p.byName[r.Name] = r
		p.rules = append(p.rules, r)
		for j := range r.match.patterns {
			p.index.add(newEntry(i, j), &r.match.patterns[j], r.match)
		}
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return p, nil
}

func (c *compiler) compile(i int, given *Rule) *rule {
	c.index, c.rule = i, given.Name
	r := &rule{Rule: *given}
	if !isName(r.Name) {
		c.report("Name", r.Name, nameProblem(r.Name))
	}
	r.match = newMatcher(&r.Match, c.options.Paths, c.report)
	r.parts = newParts(&r.Rule, r.match, c.options.IPv6Prefix, c.report)
	r.Key = r.parts
	r.Limits = c.nameLimits(&r.Rule)
	c.checkNumbers(&r.Rule)
	c.checkResponse(&r.WhenLimited)
	if r.OnStoreError == FallbackDefault {
		r.OnStoreError = c.options.OnStoreError
	}
	if r.OnStoreError > FallbackLocal {
		c.report("OnStoreError", "", "is unknown; give FallbackAllow, FallbackDeny or FallbackLocal")
	}
	for _, l := range r.Limits {
		_, leases := l.Algorithm().(sluice.Concurrency)
		r.leases = append(r.leases, leases)
		r.asks = append(r.asks, sluice.Request{Limit: l, Floor: r.Floor, MaxWait: r.MaxWait, Ban: r.Ban, Shadow: r.Shadow})
	}
	return r
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "is missing; give each rule a name of its own"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d letters", maxName)
	default:
		return "is no name: it is made of letters, digits, dots, dashes and underscores, and begins with a letter or digit"
	}
}

// nameLimits gives the limits of a rule the names under which their state is
// kept: no other rule's, and none twice.
func (c *compiler) nameLimits(r *Rule) []*sluice.Limit {
	if len(r.Limits) == 0 {
		c.report("Limits", "", "are missing; give one or more")
	}
	var named []*sluice.Limit
	seen := map[string]bool{}
	for i, l := range r.Limits {
		field := fmt.Sprintf("Limits[%d]", i)
		if l == nil {
			c.report(field, "", "is nil; make it with sluice.NewLimit")
			continue
		}
		own, given := l.Name(), l.Name() != l.Algorithm().String()
		switch {
		case !given && i == 0:
			own = ""
		case !given:
			own = fmt.Sprint(i + 1)
		case !isName(own):
			c.report(field+".Name", own, nameProblem(own))
		}
		if seen[own] {
			c.report(field+".Name", own, "is that of another limit of the rule too; give each its own, for its state is kept under it")
		}
		seen[own] = true
		name := strings.TrimSuffix(r.Name+"/"+own, "/")
		l, err := sluice.NewLimit(name, l.Algorithm())
		if err != nil { // it was a limit before
			c.report(field, "", err.Error())
			continue
		}
		named = append(named, l)
	}
	return named
}

// checkNumbers checks what a rule adds to its limits.
func (c *compiler) checkNumbers(r *Rule) {
	capacity := int64(math.MaxInt64)
	for _, l := range r.Limits {
		capacity = min(capacity, l.Capacity())
	}
	switch {
	case r.Floor < 0:
		c.report("Floor", "", fmt.Sprintf("is %d; give 0 or more", r.Floor))
	case r.Floor >= capacity:
		c.report("Floor", "", fmt.Sprintf("is %d, and a limit of the rule holds %d: no request would pass", r.Floor, capacity))
	default:
		capacity -= r.Floor
	}
	r.Cost.check(capacity, c.report)
	if r.MaxWait < 0 && r.MaxWait != sluice.NoWait {
		c.report("MaxWait", "", fmt.Sprintf("is %v; give a time, or sluice.NoWait for none", r.MaxWait))
	}
	if r.Ban != nil {
		ban := *r.Ban
		r.Ban = &ban
		c.checkBan(r.Ban)
	}
}

// The longest time of a ban: that of a request.
const maxBan = 100 * 365 * 24 * time.Hour

func (c *compiler) checkBan(b *sluice.Ban) {
	if b.After < 1 {
		c.report("Ban.After", "", fmt.Sprintf("is %d; give 1 or more denials", b.After))
	}
	if b.For < time.Millisecond || b.For > maxBan {
		c.report("Ban.For", "", fmt.Sprintf("is %v; give a millisecond to 100 years", b.For))
	}
	if b.Within < 0 || b.Within > maxBan {
		c.report("Ban.Within", "", fmt.Sprintf("is %v; give 0 to 100 years", b.Within))
	}
}

func (c *compiler) checkResponse(r *Response) {
	if r.Status != 0 && (r.Status < 400 || r.Status > 599) {
		c.report("WhenLimited.Status", "", fmt.Sprintf("is %d; a refusal has 400 to 599", r.Status))
	}
	for name, value := range r.Header {
		if !isToken(name) {
			c.report("WhenLimited.Header", name, "is no name of a header")
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			c.report("WhenLimited.Header", name, "has a line break in its value")
		}
	}
	if strings.ContainsAny(r.ContentType, "\r\n\x00") {
		c.report("WhenLimited.ContentType", r.ContentType, "has a line break in it")
	}
}
