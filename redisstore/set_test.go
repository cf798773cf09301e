package redisstore

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// setLimits are limits whose state is a sorted set.
var setLimits = []*limit{
	new(limits).get(sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerMinute(5), MinInterval: time.Second})),
	new(limits).get(sluice.MustLimit("denied", sluice.SlidingLog{Rate: sluice.PerMinute(5), CountDenied: true})),
	new(limits).get(sluice.MustLimit("leases", sluice.Concurrency{Max: 2, Queue: 3, Latency: time.Second})),
}

// packed writes numbers, and texts, as scripts do.
func packed(values ...any) string {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case int:
			b = appendInt(b, int64(v))
		case string:
			b = appendText(b, v)
		}
	}
	return string(b)
}

// The view of a set gives the decision of the script.
func TestViewsOfSetsGiveTheDecision(t *testing.T) {
	const now = 1_000_000_000
	for _, row := range []struct {
		limit *limit
		view  string
		cost  int64
		want  sluice.Decision
	}{
		{setLimits[0], "", 2, sluice.Decision{
			Allowed: true, Limit: 5, Remaining: 3, ResetAfter: time.Minute, Receipt: sluice.Receipt{At: now},
		}},
		{setLimits[0], packed(now-10_000_000, 3), 2, sluice.Decision{
			Allowed: true, Limit: 5, ResetAfter: time.Minute, Receipt: sluice.Receipt{At: now},
		}},
		{setLimits[0], packed(now, 3), 1, sluice.Decision{
			Reason: sluice.ReasonTooSoon, Limit: 5, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Minute,
		}},
		{setLimits[0], packed(now-10_000_000, 4, now-40_000_000, 2), 2, sluice.Decision{
			Reason: sluice.ReasonLimited, Limit: 5, Remaining: 1, RetryAfter: 20 * time.Second, ResetAfter: 50 * time.Second,
		}},
		{setLimits[1], packed(now-10_000_000, 4, now-20_000_000, 3), 2, sluice.Decision{
			Reason: sluice.ReasonLimited, Limit: 5, RetryAfter: 40 * time.Second, ResetAfter: time.Minute,
		}},
		{setLimits[2], "", 1, sluice.Decision{
			Allowed: true, Limit: 5, Remaining: 4, ResetAfter: time.Minute, Receipt: sluice.Receipt{At: now},
		}},
		{setLimits[2], packed("", now, 0, 0, 4, now+5_000_000), 1, sluice.Decision{
			Allowed: true, Limit: 5, Delay: 2 * time.Second, ResetAfter: time.Minute, Receipt: sluice.Receipt{At: now},
		}},
		{setLimits[2], packed("", now, 0, 0, 4, now+5_000_000, 0, 1, now+2_000_000), 2, sluice.Decision{
			Reason: sluice.ReasonLimited, Limit: 5, Remaining: 1, RetryAfter: 2 * time.Second, ResetAfter: 5 * time.Second,
		}},
		{setLimits[2], packed("\x07\x00\x00\x00\x00\x00\x00\x00", now, 3_000_000, now-1, 4, now+5_000_000, 1, 3), 1, sluice.Decision{
			Allowed: true, Limit: 5, Remaining: 1, Delay: 3 * time.Second, ResetAfter: time.Minute, Receipt: sluice.Receipt{At: now},
		}},
	} {
		got, err := row.limit.decision(row.view, &algo.Request{Now: now, Cost: row.cost, Member: 7}, false)
		if err != nil || got != row.want {
			t.Errorf("%v, %q, cost %d: %+v, %v; want %+v", row.limit.params.Kind, row.view, row.cost, got, err, row.want)
		}
	}
}

func TestSetViewsRefused(t *testing.T) {
	for _, row := range []struct {
		limit *limit
		view  string
	}{
		{setLimits[0], packed(5)},
		{setLimits[0], packed(5, 0)},
		{setLimits[0], packed(5, 3, 4)},
		{setLimits[0], packed(5, 3, 6, 2)}, // later than the newest
		{setLimits[0], packed(5, 3, 4, 0)}, // nothing up to it
		{setLimits[0], packed(5, 3, 4, 4)}, // more than all
		{setLimits[0], packed(5, 3, 4, 2, 1)},
		{setLimits[0], packed("text", 3)},
		{setLimits[2], packed("", 1, 2, 3)},
		{setLimits[2], packed("short", 1, 2, 3, 4, 5)},
		{setLimits[2], packed(1, 1, 2, 3, 4, 5)},
		{setLimits[2], packed("", 1, 2, 3, 4, 5, 1)},
		{setLimits[2], packed("", 1, 2, 3, 4, 5, 1, 5)}, // more than are held
		{setLimits[2], packed("", 1, 2, 3, 4, 5, 0, 2)},
		{setLimits[2], packed("", 1, 2, 3, 4, 5, 0, 2, 3, 4)},
		{setLimits[2], packed("", 1, 2, 3, -4, 5)},
	} {
		if d, err := row.limit.decision(row.view, &algo.Request{Now: 10, Cost: 1, Member: 7}, false); err == nil {
			t.Errorf("%v: %q is answered with %+v", row.limit.params.Kind, row.view, d)
		}
	}
}
