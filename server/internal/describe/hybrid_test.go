package describe

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// The text about a hybrid limit has its bound, and what may be left unused.
func TestHybridBounds(t *testing.T) {
	for want, c := range map[string]struct {
		algorithm sluice.Algorithm
		terms     sluice.Hybrid
	}{
		"never more than 1000 + 100/s·t; up to 50 may be left unused, and what the limit gives in 100ms":                                                       {sluice.TokenBucket{Rate: sluice.PerSecond(100), Burst: 1000}, sluice.Hybrid{}},
		"never more than 1000 + 20 (overdraft) + 1000/30s·t; up to 100 may be left unused, and what the limit gives in 100ms":                                  {sluice.TokenBucket{Rate: sluice.Per(1000, 30*time.Second)}, sluice.Hybrid{Overdraft: 20, Stranded: 0.1}},
		"never more than 1000 + 1000/s·t, and n × 1000 (credit) for n servers; up to 50 may be left unused, and what the limit gives in 100ms":                 {sluice.TokenBucket{Rate: sluice.PerSecond(1000)}, sluice.Hybrid{Credit: 1000}},
		"never more than 500 in any minute; up to 25 may be left unused, and what the limit gives in 225ms":                                                    {sluice.SlidingWindow{Rate: sluice.PerMinute(500)}, sluice.Hybrid{}},
		"never more than 500 + 5 (overdraft) in any minute, and n × 10 (credit) for n servers; up to 25 may be left unused, and what the limit gives in 350ms": {sluice.SlidingLog{Rate: sluice.PerMinute(500)}, sluice.Hybrid{Sync: 200 * time.Millisecond, Overdraft: 5, Credit: 10}},
		"never more than 999 in any minute; up to 25 may be left unused, and what the limit gives in 225ms":                                                    {sluice.SlidingCounter{Rate: sluice.PerMinute(500)}, sluice.Hybrid{}},
		"never more than 1009 in any minute, and 2 × n × 10 (credit) for n servers; up to 25 may be left unused, and what the limit gives in 225ms":            {sluice.SlidingCounter{Rate: sluice.PerMinute(500)}, sluice.Hybrid{Overdraft: 5, Credit: 10}},
		"never more than 500 in each hour; up to 25 may be left unused":                                                                                        {sluice.FixedWindow{Rate: sluice.PerHour(500)}, sluice.Hybrid{}},
		"never more than 500 in each calendar month; up to 25 may be left unused":                                                                              {sluice.FixedWindow{Rate: sluice.PerDay(500), Calendar: sluice.CalendarMonth}, sluice.Hybrid{}},
	} {
		exact := sluice.MustLimit("", c.algorithm)
		l, err := exact.WithHybrid(c.terms)
		if err != nil {
			t.Fatal(err)
		}
		if got := Hybrid(l); got != want {
			t.Errorf("%v, %+v:\n got %s\nwant %s", exact, c.terms, got, want)
		}
		if got := Hybrid(exact); got != "" {
			t.Errorf("%v, which is exact: %s", exact, got)
		}
	}
}

// Rules and traces describe hybrid limits where the store is in Redis; the memory store has none.
func TestHybridIsDescribed(t *testing.T) {
	hot, err := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1000)}).WithHybrid(sluice.Hybrid{})
	if err != nil {
		t.Fatal(err)
	}
	o := policy.Options{Rules: []policy.Rule{{Name: "hot", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{hot}}}}
	p, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	trace := p.Trace(&policy.Attributes{Method: "GET", Path: "/"})
	const bound = "never more than 1000 + 1000/s·t; up to 50 may be left unused, and what the limit gives in 100ms"
	const said = "    hybrid     " + bound + "\n"
	for _, remote := range []bool{true, false} {
		if got := Policy(p, &o, remote); strings.Contains(got, said) != remote {
			t.Errorf("remote %t: the rule is described as\n%s", remote, got)
		}
		if got := Trace(&trace, remote); strings.Contains(got, said) != remote {
			t.Errorf("remote %t: the trace is\n%s", remote, got)
		}
		want := map[bool]string{true: bound}[remote]
		if got := NewExplanation(&trace, remote).Rules[0].Limits[0].Hybrid; got != want {
			t.Errorf("remote %t: the explanation is %q", remote, got)
		}
	}
}
