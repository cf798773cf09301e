package policy_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// left is a store whose callers leave while it decides.
type left struct {
	*stub
	leave    context.CancelFunc
	err      error // of the context, after the caller has left
	deadline bool  // the context has one
}

func (l *left) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	l.leave()
	l.err = ctx.Err()
	_, l.deadline = ctx.Deadline()
	return l.stub.Decide(ctx, r)
}

// The decision about a lease goes on when its caller leaves, so that the lease is known and can be given back. It still
// ends at the caller's deadline. Other decisions end with their caller.
func TestDecisionsOutlastCallers(t *testing.T) {
	for name, c := range map[string]struct {
		limit *sluice.Limit
		lasts bool
	}{
		"a lease": {sluice.MustLimit("", sluice.Concurrency{Max: 1, TTL: time.Hour}), true},
		"units":   {sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)}), false},
	} {
		rules := named("r")
		rules[0].Limits = []*sluice.Limit{c.limit}
		for kind, decide := range map[string]func(context.Context, sluice.Store) policy.Verdict{
			"policy": func(ctx context.Context, s sluice.Store) policy.Verdict {
				return mustPolicy(t, policy.Options{Rules: rules}).Decide(ctx, s, &policy.Attributes{})
			},
			"single": func(ctx context.Context, s sluice.Store) policy.Verdict {
				return mustSingle(t, rules[0]).Decide(ctx, s, &policy.Attributes{})
			},
		} {
			for _, timed := range []bool{false, true} {
				ctx, leave := context.WithCancel(t.Context())
				if timed {
					ctx, leave = context.WithTimeout(t.Context(), time.Hour)
				}
				s := &left{stub: &stub{}, leave: leave}
				if v := decide(ctx, s); !v.Allowed() || (s.err == nil) != c.lasts || s.deadline != timed {
					t.Errorf("%s, %s, timed %t: %s, %v, deadline %t", name, kind, timed, v.String(), s.err, s.deadline)
				}
			}
		}
	}
}
