package guard_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/policy"
)

// While the store is down, each of four processes admits a quarter of the numbers in force: of an override as soon as it is set, and of the rule's
// when it is gone. Units that were used before a change stay used.
func TestSharesFollowOverrides(t *testing.T) {
	limits := func(n int64) []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(n), Opened: true})}
	}
	table := policy.NewOverrideTable()
	p, err := policy.New(policy.Options{
		Rules:     []policy.Rule{{Name: "r", Key: []policy.Part{policy.Global()}, Limits: limits(100)}},
		Overrides: table,
		Terms: func(_, text string) (policy.Terms, error) {
			n, err := strconv.ParseInt(text, 10, 64)
			return policy.Terms{Limits: limits(n)}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 4}})
	s.fake.set(func(context.Context) error { return errors.New("the store is down") })
	global := p.LimitsFor(&policy.Attributes{Path: "/"})[0].Request.Key
	for i, step := range []struct {
		override string
		limit    int64 // of the fallback
		left     int64 // after one unit more
		allowed  bool
	}{
		{"", 25, 24, true},
		{"400", 100, 98, true},
		{"8", 2, 0, false},
		{"12", 3, 0, true},
		{"", 25, 21, true},
	} {
		if step.override == "" {
			table.Remove("r", global)
		} else if err := table.Set("r", global, step.override, time.Time{}); err != nil {
			t.Fatal(err)
		}
		v := p.Decide(t.Context(), s, &policy.Attributes{Path: "/"})
		d := v.Tightest
		if !d.Degraded || d.Limit != step.limit || d.Remaining != step.left || v.Allowed() != step.allowed {
			t.Errorf("step %d, with the override %q: %+v; want %d left of %d, allowed %v, by the fallback", i, step.override, d, step.left, step.limit, step.allowed)
		}
	}
}
