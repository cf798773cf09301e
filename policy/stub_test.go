package policy_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// stub is a store that returns its answers and records its requests.
type stub struct {
	mu       sync.Mutex
	answer   func(r *sluice.Request) sluice.Decision // nil allows
	fails    func(rs []sluice.Request) error         // nil never fails
	err      error
	keep     bool // whether requests are recorded
	requests []sluice.Request
	single   int // calls of Decide
	batch    int // calls of DecideAll
	ended    []ending
	reset    []sluice.Key
}

var _ sluice.Store = (*stub)(nil)

func (s *stub) decide(r *sluice.Request) sluice.Decision {
	if s.keep {
		s.mu.Lock()
		s.requests = append(s.requests, *r)
		s.mu.Unlock()
	}
	if s.answer == nil {
		return sluice.Decision{Allowed: true, Limit: 10, Remaining: 5}
	}
	return s.answer(r)
}

func (s *stub) Decide(_ context.Context, r sluice.Request) (sluice.Decision, error) {
	s.count(&s.single)
	return s.decide(&r), s.failure([]sluice.Request{r})
}

func (s *stub) DecideAll(_ context.Context, rs []sluice.Request, out []sluice.Decision) error {
	s.count(&s.batch)
	for i := range rs {
		out[i] = s.decide(&rs[i])
	}
	return s.failure(rs)
}

func (s *stub) count(n *int) {
	s.mu.Lock()
	*n++
	s.mu.Unlock()
}

func (s *stub) failure(rs []sluice.Request) error {
	if s.fails != nil {
		return s.fails(rs)
	}
	return s.err
}

// ending is the end of a charge: its units, or -1 if it was canceled.
type ending struct {
	charge sluice.Charge
	units  int64
}

func (s *stub) end(c sluice.Charge, units int64) error {
	s.ended = append(s.ended, ending{c, units})
	return s.err
}

func (s *stub) Cancel(_ context.Context, c sluice.Charge) error { return s.end(c, -1) }

func (s *stub) Settle(_ context.Context, c sluice.Charge, units int64) error {
	return s.end(c, units)
}

func (s *stub) Release(context.Context, sluice.Charge, time.Duration) error {
	return s.err
}

func (s *stub) Reset(_ context.Context, _ *sluice.Limit, k sluice.Key) error {
	s.reset = append(s.reset, k)
	return s.err
}

// values are the named parts of a request.
type values struct {
	header, cookie, query, claim, attribute map[string]string
}

var (
	_ policy.Values          = values{}
	_ policy.ClaimValues     = values{}
	_ policy.AttributeValues = values{}
)

func (v values) Header(name string) (string, bool) { s, ok := v.header[name]; return s, ok }
func (v values) Cookie(name string) (string, bool) { s, ok := v.cookie[name]; return s, ok }
func (v values) Query(name string) (string, bool)  { s, ok := v.query[name]; return s, ok }
func (v values) Claim(name string) (string, bool)  { s, ok := v.claim[name]; return s, ok }
func (v values) Attribute(name string) (string, bool) {
	s, ok := v.attribute[name]
	return s, ok
}

// several are headers, cookies, parameters and claims by their name, any of them on several lines.
type several map[string][]string

var _ policy.RepeatableValues = several{}

func (v several) first(name string) (string, bool) {
	if len(v[name]) == 0 {
		return "", false
	}
	return v[name][0], true
}

func (v several) Header(name string) (string, bool) { return v.first(name) }
func (v several) Cookie(name string) (string, bool) { return v.first(name) }
func (v several) Query(name string) (string, bool)  { return v.first(name) }
func (v several) Claim(name string) (string, bool)  { return v.first(name) }

// Read returns an unclear value for a single value that begins with "unclear".
func (v several) Read(_ policy.Source, name string) (r policy.Found) {
	all := v[name]
	switch {
	case len(all) == 0:
		return r
	case len(all) > 1:
		r.Count = policy.CountSeveral
	case strings.HasPrefix(all[0], "unclear"):
		r.Count = policy.CountUnclear
	default:
		r.Count = policy.CountOne
	}
	r.First, r.Last = all[0], all[len(all)-1]
	return r
}

func (v several) ReadAll(_ policy.Source, name string) []string { return v[name] }

// plain holds the values of an edge without claims and attributes.
type plain struct{ policy.Values }
