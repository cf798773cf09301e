package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// farStore is a store at the other end of a network. A caller that leaves before the answer comes cannot
// find out whether the store has decided. Clients leave during its calls.
type farStore struct {
	sluice.Store
	leave func()
}

func (s *farStore) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	s.left()
	d, err := s.Store.Decide(context.WithoutCancel(ctx), r)
	if ctx.Err() != nil {
		return sluice.Decision{}, sluice.ErrUnknownOutcome
	}
	return d, err
}

func (s *farStore) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	s.left()
	err := s.Store.DecideAll(context.WithoutCancel(ctx), rs, out)
	if ctx.Err() != nil {
		return sluice.ErrUnknownOutcome
	}
	return err
}

func (s *farStore) Cancel(ctx context.Context, c sluice.Charge) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.Store.Cancel(ctx, c)
}

func (s *farStore) left() {
	if s.leave != nil {
		s.leave()
	}
}

// A client that leaves while the store decides keeps no lease and no charge that its request was to
// give back. So it cannot take all units by coming and going.
func TestClientGoneWhileItsLeaseIsGranted(t *testing.T) {
	flight, roomy := []*sluice.Limit{sluice.MustLimit("five", sluice.Concurrency{Max: 5})}, hourly(1000)[0]
	byKey := func(limits ...*sluice.Limit) func(sluice.Store) *httplimit.Decider {
		return func(s sluice.Store) *httplimit.Decider {
			return keyed(t, httplimit.KeyOptions{Store: s, Limits: limits, Key: []policy.Part{policy.Constant("all")}})
		}
	}
	byRules := func(rules ...policy.Rule) func(sluice.Store) *httplimit.Decider {
		return func(s sluice.Store) *httplimit.Decider { return ruled(t, s, httplimit.PolicyOptions{}, rules...) }
	}
	five := policy.Rule{Name: "five", Limits: flight}
	failures := policy.Rule{Name: "failures", Limits: hourly(5), CountStatus: []policy.StatusRange{policy.Status(401)}}
	marks := policy.Rule{Name: "marks", Limits: flight, WhenLimited: policy.LimitedAction{Action: policy.Mark}}
	refuses := policy.Rule{Name: "refuses", Match: policy.Match{Marked: new(bool)}, Always: true}
	for name, c := range map[string]struct {
		decider, left func(sluice.Store) *httplimit.Decider
	}{
		"a limit":                      {decider: byKey(flight[0])},
		"limits":                       {decider: byKey(flight[0], roomy)},
		"a rule":                       {decider: byRules(five)},
		"rules":                        {decider: byRules(five, policy.Rule{Name: "roomy", Limits: []*sluice.Limit{roomy}})},
		"a rule that counts by status": {decider: byRules(failures)},
		"a request to be marked":       {decider: byRules(marks, refuses), left: byRules(marks)},
	} {
		t.Run(name, func(t *testing.T) {
			clock := int64(1e6)
			far := &farStore{Store: storeAt(t, &clock)}
			h := wrap(t, c.decider(far), httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }}, nothing)
			for range 10 {
				ctx, leave := context.WithCancel(t.Context())
				far.leave = leave
				h.ServeHTTP(httptest.NewRecorder(), get("/").WithContext(ctx))
			}
			if c.left == nil {
				c.left = c.decider
			}
			v := c.left(far.Store).Decide(get("/"))
			if got := v.Results[0].Decision; !got.Allowed || got.Remaining != 4 {
				t.Errorf("one request takes a unit, and %d of 5 are left", got.Remaining)
			}
		})
	}
}
