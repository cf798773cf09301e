package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
)

// Each request of a batch has its own fallback, and all are charged or none.
func TestEachRequestOfABatchHasItsFallback(t *testing.T) {
	fallback := by(map[string]sluice.Fallback{
		"local": sluice.FallbackLocal, "local too": sluice.FallbackLocal, "allow": sluice.FallbackAllow, "deny": sluice.FallbackDeny,
	})
	of := func(name string) *sluice.Limit { return limit(name, sluice.FixedWindow{Rate: sluice.PerDay(10)}) }
	decide := func(name string, cost int64) sluice.Request {
		return sluice.Request{Limit: of(name), Key: key, Cost: cost}
	}
	shadow := func(r sluice.Request) sluice.Request {
		r.Shadow = true
		return r
	}
	peek := func(r sluice.Request) sluice.Request {
		r.Peek = true
		return r
	}
	debit := func(r sluice.Request) sluice.Request {
		r.Debit = true
		return r
	}
	overdraw := func(r sluice.Request) sluice.Request {
		r.Overdraw = true
		return r
	}
	for _, c := range []struct {
		name  string
		rs    []sluice.Request
		want  string // a letter for each request: allowed, limited, never, or the store's error
		used  int64  // of "local"
		used2 int64  // of "local too"
	}{
		{"all allowed", []sluice.Request{decide("local", 3), decide("allow", 1), decide("local too", 4)}, "aaa", 3, 4},
		{"twice the same", []sluice.Request{decide("local", 6), decide("local", 4)}, "aa", 10, 0},
		{"twice too much", []sluice.Request{decide("local", 6), decide("local", 5), decide("local too", 1)}, "ala", 0, 0},
		{"denied outright", []sluice.Request{decide("local", 3), decide("deny", 1), decide("local too", 4)}, "aea", 0, 0},
		{"denied outright and locally", []sluice.Request{decide("deny", 1), decide("local", 11)}, "en", 0, 0},
		{"never, although the fallback allows", []sluice.Request{decide("local", 3), decide("allow", 11)}, "an", 0, 0},
		{"a shadow denies", []sluice.Request{shadow(decide("deny", 1)), decide("local", 3), shadow(decide("local too", 11))}, "ean", 3, 0},
		{"shadows are charged", []sluice.Request{decide("deny", 1), shadow(decide("local", 3)), decide("local too", 1)}, "eaa", 3, 0},
		{"debits are charged", []sluice.Request{decide("deny", 1), debit(decide("local", 3)), decide("local too", 1)}, "eaa", 3, 0},
		{"a debit counts before the others", []sluice.Request{decide("local", 8), debit(decide("local", 3)), decide("local too", 1)}, "laa", 3, 0},
		{"an overdraw takes what is not there", []sluice.Request{decide("local", 3), overdraw(decide("local", 1000)), decide("local too", 1)}, "aaa", 10, 1},
		{"an overdraw in debt", []sluice.Request{overdraw(decide("local", 1000)), overdraw(decide("local", 1)), decide("local too", 1)}, "ala", 0, 0},
		{"an overdraw that the fallback allows", []sluice.Request{overdraw(decide("allow", 1000)), decide("local", 1)}, "aa", 1, 0},
		{"a look can deny", []sluice.Request{decide("local", 3), peek(decide("deny", 1))}, "ae", 0, 0},
		{"a look takes nothing", []sluice.Request{peek(decide("local", 3)), decide("local too", 1)}, "aa", 0, 1},
	} {
		for _, allowAll := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/open=%v", c.name, allowAll), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := build(t, guard.Options{Fallback: fallback})
					if allowAll {
						h.outage()
					}
					h.fake.set(broken)
					out := make([]sluice.Decision, len(c.rs))
					if err := h.DecideAll(t.Context(), c.rs, out); err != nil {
						t.Fatal(err)
					}
					got, denied := "", false
					for i, d := range out {
						got += map[sluice.Reason]string{
							sluice.ReasonNone: "a", sluice.ReasonLimited: "l", sluice.ReasonNever: "n", sluice.ReasonStoreError: "e",
						}[d.Reason]
						if !d.Degraded || d.Limit != 10 || d.Allowed != (d.Reason == sluice.ReasonNone) {
							t.Errorf("decision %d: %+v", i, d)
						}
						denied = denied || !d.Allowed && !c.rs[i].Shadow
					}
					if got != c.want {
						t.Errorf("answered %s, want %s", got, c.want)
					}
					for i, d := range out {
						if charged := !denied || c.rs[i].Shadow || c.rs[i].Debit; (d.Receipt != sluice.Receipt{}) != (charged && d.Allowed) {
							t.Errorf("decision %d, denied %v: receipt %+v", i, denied, d.Receipt)
						}
					}
					h.used("local", c.used)
					h.used("local too", c.used2)
					// What was charged can be given back, where it was.
					for i, d := range out {
						if (d.Receipt != sluice.Receipt{}) && !c.rs[i].Peek {
							if err := h.Cancel(t.Context(), c.rs[i].Charge(&d)); err != nil {
								t.Errorf("canceling %d: %v", i, err)
							}
						}
					}
					h.used("local", 0)
					h.used("local too", 0)
				})
			})
		}
	}
}

// used checks how many of ten units a day are used of a limit's local version.
func (h *house) used(name string, want int64) {
	h.Helper()
	d := h.decide(sluice.Request{Limit: limit(name, sluice.FixedWindow{Rate: sluice.PerDay(10)}), Key: key, Peek: true})
	if got := d.Limit - d.Remaining; !d.Degraded || got != want {
		h.Errorf("%d of %q are used locally, want %d", got, name, want)
	}
}

// What a store has denied stays denied, though it cannot decide the others: these follow their ladders, and
// nothing is charged.
func TestBatchDeniedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Fallback: by(map[string]sluice.Fallback{"local": sluice.FallbackLocal, "allow": sluice.FallbackAllow})})
		of := func(name string) *sluice.Limit { return limit(name, sluice.FixedWindow{Rate: sluice.PerDay(10)}) }
		denied := sluice.Decision{Reason: sluice.ReasonLimited, Limit: 10, RetryAfter: time.Hour, ResetAfter: time.Hour}
		h.fake.set(func(context.Context) error {
			return fmt.Errorf("a part: %w", &driver.DenialError{Denied: map[int]sluice.Decision{1: denied}, Err: errors.New("one server is gone")})
		})
		rs := []sluice.Request{
			{Limit: of("local"), Key: key, Cost: 3}, {Limit: of("exhausted"), Key: key, Cost: 1}, {Limit: of("allow"), Key: key, Cost: 1},
		}
		out := make([]sluice.Decision, len(rs))
		if err := h.DecideAll(t.Context(), rs, out); err != nil {
			t.Fatal(err)
		}
		if out[1] != denied {
			t.Errorf("what the store has denied is %+v, want %+v", out[1], denied)
		}
		for _, i := range []int{0, 2} {
			if d := out[i]; !d.Allowed || !d.Degraded || d.Receipt != (sluice.Receipt{}) {
				t.Errorf("decision %d is %+v, want one that would be allowed and has taken nothing", i, d)
			}
		}
		h.used("local", 0)
	})
}

// A store that waits for one of its servers can say what another one has denied only when time is up.
func TestBatchDeniedInPartAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackAllow})
		h.fake.set(func(ctx context.Context) error {
			<-ctx.Done()
			return &driver.DenialError{Denied: map[int]sluice.Decision{0: {Reason: sluice.ReasonLimited}}, Err: ctx.Err()}
		})
		l := limit("l", sluice.FixedWindow{Rate: sluice.PerDay(10)})
		out := make([]sluice.Decision, 2)
		for range 5 {
			if err := h.DecideAll(t.Context(), []sluice.Request{{Limit: l, Key: key, Cost: 1}, {Limit: l, Key: key, Cost: 1}}, out); err != nil {
				t.Fatal(err)
			}
			if out[0].Allowed || !out[1].Allowed {
				t.Fatalf("decided %+v; the first was denied", out)
			}
		}
	})
}

// spoiled is a store in which one key holds no state.
type spoiled struct{ sluice.Store }

var foreignKey = sluice.StringKey("foreign")

func (s spoiled) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if r.Key == foreignKey {
		return sluice.Decision{}, sluice.ErrForeignState
	}
	return s.Store.Decide(ctx, r)
}

func (s spoiled) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if slices.ContainsFunc(rs, func(r sluice.Request) bool { return r.Key == foreignKey }) {
		return sluice.ErrForeignState
	}
	return s.Store.DecideAll(ctx, rs, out)
}

// Shadows do not depend on each other: the fallback decides only about the key that holds no state.
func TestForeignStateAmongShadows(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := guard.New(guard.Options{Store: spoiled{store}, Default: sluice.FallbackDeny})
	if err != nil {
		t.Fatal(err)
	}
	rs := make([]sluice.Request, 5)
	for i := range rs {
		rs[i] = sluice.Request{Limit: other, Key: sluice.StringKey(strconv.Itoa(i % 3)), Cost: 1, Shadow: true}
	}
	rs[2].Key = foreignKey
	out := make([]sluice.Decision, len(rs))
	if err := s.DecideAll(t.Context(), rs, out); err != nil {
		t.Fatal(err)
	}
	for i, remaining := range []int64{1, 1, 0, 2, 2} {
		switch d := out[i]; {
		case i == 2 && (d.Allowed || !d.Degraded):
			t.Errorf("about the foreign state: %+v", d)
		case i != 2 && (!d.Allowed || d.Degraded || d.Remaining != d.Limit-remaining):
			t.Errorf("shadow %d: %+v", i, d)
		}
	}
	if st := s.Stats(); st.State != guard.StateClosed || st.Denied != 1 {
		t.Errorf("want a closed breaker and one denial, got %+v", st)
	}
	rs[0].Shadow = false // the batch is one decision again
	if err := s.DecideAll(t.Context(), rs, out); err != nil || !out[0].Degraded || !out[4].Degraded {
		t.Errorf("a batch that is one decision: %+v, %v", out, err)
	}
}
