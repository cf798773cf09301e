package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe/live"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// TestMergedDenialsAreBracketed: servers deny random keys, and each gives a summary of some keys. The exact number of denials of each
// merged key is between Denials-Error and Denials, and a key that is not listed has no more denials than the servers can have missed.
func TestMergedDenialsAreBracketed(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 76))
		exact := map[string]uint64{}
		var parts []*Part
		for range 1 + r.IntN(5) {
			d := live.NewDeniedKeys(func(k sluice.Key) string { return k.Text() })
			zipf := rand.NewZipf(r, 1.05+r.Float64(), 1, uint64(1+r.IntN(3000)))
			for range r.IntN(4000) {
				rule, key := fmt.Sprint("rule-", r.IntN(2)), fmt.Sprint("key-", zipf.Uint64())
				d.Observe(denialOf(rule, key))
				exact[rule+" "+key]++
			}
			keys, missed := d.Summary("", 1+r.IntN(MostKeys))
			part := new(Part)
			part.Tables[Denied].Missed = missed
			for _, k := range keys {
				part.Tables[Denied].Keys = append(part.Tables[Denied].Keys, Key{wire.DeniedKey{Rule: k.Rule, Digest: k.Digest, Denials: k.Denials, Error: k.Error}, k.Digest})
			}
			parts = append(parts, part)
		}
		listed := map[string]bool{}
		for _, k := range Keys(parts, Denied) {
			id := k.Rule + " " + k.Digest
			if listed[id] {
				t.Fatalf("seed %d: key %s is listed twice", seed, id)
			}
			listed[id] = true
			if n := exact[id]; n > k.Denials || n < k.Denials-k.Error {
				t.Fatalf("seed %d: key %s has %d denials, and %d with error %d are listed", seed, id, n, k.Denials, k.Error)
			}
		}
		for id, n := range exact {
			var missed uint64
			for _, p := range parts {
				missed += p.Tables[Denied].Missed[id[:len("rule-0")]]
			}
			if !listed[id] && n > missed {
				t.Fatalf("seed %d: key %s with %d denials is not listed, and the servers can have missed %d", seed, id, n, missed)
			}
		}
	}
}

// The latest denial of a key says why it is limited and what is left, on whichever server it was; what candidates would do adds up.
func TestMergedKeysFollowTheLatestDenial(t *testing.T) {
	now := func(capacity int64) *wire.LimitUsage { return &wire.LimitUsage{Capacity: capacity} }
	key := func(plan string, last int64, n *wire.LimitUsage, c *wire.Trial) *Part {
		return &Part{Tables: [kinds]Table{Denied: {Keys: []Key{{wire.DeniedKey{Rule: "r", Plan: plan, LastMS: last, Now: n, Candidate: c, Denials: 1}, "id"}}}}}
	}
	parts := []*Part{key("free", 9, now(1), &wire.Trial{Compared: 1}), key("gold", 2, now(3), &wire.Trial{Compared: 2, WouldDeny: 1}), key("silver", 5, now(2), nil)}
	for range 2 { // the first time changes no part
		keys := Keys(parts, Denied)
		if k := keys[0]; len(keys) != 1 || k.Plan != "gold" || k.LastMS != 2 || k.Now.Capacity != 3 || *k.Candidate != (wire.Trial{Compared: 3, WouldDeny: 1}) {
			t.Errorf("the key is %+v, has %+v left, and its candidate is %+v", k, k.Now, k.Candidate)
		}
	}
	rules := []wire.LiveRule{{Rule: "r", Freed: 5}, {Rule: "other"}}
	if CountFreed(rules, append(Keys(parts, Denied), wire.DeniedKey{Rule: "r", Candidate: &wire.Trial{Compared: 1}}, wire.DeniedKey{Rule: "r"})); rules[0].Compared != 2 || rules[0].Freed != 1 || rules[1].Compared != 0 {
		t.Errorf("the rules are %+v, want 1 of 2 keys freed", rules)
	}
}

// denialOf returns the verdict that denies a key.
func denialOf(rule, key string) *policy.Verdict {
	x := &policy.Rule{Name: rule}
	return &policy.Verdict{Action: policy.Deny, Rule: x, Results: []policy.LimitResult{{
		Rule: x, Request: sluice.Request{Limit: sluice.MustLimit(rule, sluice.TokenBucket{Rate: sluice.PerMinute(5)}), Key: sluice.StringKey(key), Cost: 1},
	}}}
}

// TestMergedHistoriesKeepEachRequest: the steps of servers that started at different times, by clocks that differ by hours, add up: each
// request is in the step of its time, or in the one beside it.
func TestMergedHistoriesKeepEachRequest(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 77))
		const step = int64(10_000)
		now := time.Now().UnixMilli()
		history := func(clock, at int64) *wire.History {
			steps, since := 1+r.IntN(300), r.Int64N(step)
			h := &wire.History{AtMS: now + clock, EndMS: now + clock + step - since, StepMS: step, Steps: steps, Figures: map[string][]uint32{"denied": make([]uint32, steps)}}
			if age := (at + (step - since)) / step; age < int64(steps) {
				h.Figures["denied"][steps-1-int(age)] = 7
			}
			return h
		}
		h := history(0, 1<<40)
		at := r.Int64N(300 * step) // how long ago
		other := history(r.Int64N(1<<30)-1<<29, at)
		var want uint32
		for _, n := range other.Figures["denied"] {
			want += n
		}
		AddHistory(h, other)
		if len(h.Figures["denied"]) != h.Steps {
			t.Fatalf("seed %d: %d steps have %d numbers", seed, h.Steps, len(h.Figures["denied"]))
		}
		var got uint32
		for i, n := range h.Figures["denied"] {
			got += n
			end := h.EndMS - int64(h.Steps-1-i)*step
			if when := now - at; n > 0 && (when < end-2*step || when > end+step) {
				t.Errorf("seed %d: requests of %d ms ago are in the step that ended %d ms ago", seed, at, now-end)
			}
		}
		if got != want {
			t.Errorf("seed %d: the sum has %d requests, want %d", seed, got, want)
		}
	}
}

// What another server wrote is used only if its form is right.
func TestUnsoundAnswersAreNotAdded(t *testing.T) {
	h := &wire.History{StepMS: 10_000, Steps: 3, Figures: map[string][]uint32{}}
	for _, other := range []*wire.History{
		{StepMS: 1, Steps: 1, Figures: map[string][]uint32{"denied": {1}}},
		{StepMS: 10_000, Steps: 1 << 30},
		{StepMS: 10_000, Steps: -1},
		{StepMS: 10_000, Steps: 2, Figures: map[string][]uint32{"denied": {1, 2, 3}}},
	} {
		if AddHistory(h, other); h.Steps != 3 || len(h.Figures) > 0 {
			t.Errorf("after %+v, the history is %+v", other, h)
		}
	}
	AddHistory(h, &wire.History{StepMS: 10_000, Steps: 1, AtMS: 1 << 62, EndMS: -1 << 62, Figures: map[string][]uint32{"denied": {1}}})
	for _, s := range []*Part{
		{Live: wire.Live{Figures: []string{"a"}, Rules: []wire.LiveRule{{Totals: []uint64{1, 2}}}}},
		{Live: wire.Live{Rules: make([]wire.LiveRule, MostRules+1)}},
		{Tables: [kinds]Table{Denied: {Keys: make([]Key, MostKeys+1)}}},
		{Tables: [kinds]Table{Allowed: {Keys: make([]Key, MostKeys+1)}}},
	} {
		if s.Sound() {
			t.Errorf("an unsound answer is added: %d rules, %d keys", len(s.Rules), len(s.Tables[Denied].Keys))
		}
	}
}
