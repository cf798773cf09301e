package policy_test

import (
	"context"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// stub answers as told, and remembers what it was asked.
type stub struct {
	mu     sync.Mutex
	answer func(r *sluice.Request) sluice.Decision // nil allows
	err    error
	keep   bool // the requests in asked
	asked  []sluice.Request
	single int // calls of Decide
	reset  []sluice.Key
}

var _ sluice.Store = (*stub)(nil)

func (s *stub) decide(r *sluice.Request) sluice.Decision {
	if s.keep {
		s.mu.Lock()
		s.asked = append(s.asked, *r)
		s.mu.Unlock()
	}
	if s.answer == nil {
		return sluice.Decision{Allowed: true, Limit: 10, Remaining: 5}
	}
	return s.answer(r)
}

func (s *stub) Decide(_ context.Context, r sluice.Request) (sluice.Decision, error) {
	s.single++
	return s.decide(&r), s.err
}

func (s *stub) DecideAll(_ context.Context, rs []sluice.Request, out []sluice.Decision) error {
	for i := range rs {
		out[i] = s.decide(&rs[i])
	}
	return s.err
}

func (s *stub) Cancel(context.Context, sluice.Charge) error        { return s.err }
func (s *stub) Settle(context.Context, sluice.Charge, int64) error { return s.err }
func (s *stub) Release(context.Context, sluice.Charge, time.Duration) error {
	return s.err
}

func (s *stub) Reset(_ context.Context, _ *sluice.Limit, k sluice.Key) error {
	s.reset = append(s.reset, k)
	return s.err
}

// values are the named parts of a request.
type values struct {
	header, cookie, query map[string]string
}

var _ policy.Values = values{}

func (v values) Header(name string) (string, bool) { s, ok := v.header[name]; return s, ok }
func (v values) Cookie(name string) (string, bool) { s, ok := v.cookie[name]; return s, ok }
func (v values) Query(name string) (string, bool)  { s, ok := v.query[name]; return s, ok }
