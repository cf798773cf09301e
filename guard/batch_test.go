package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

// Each request of a batch has its own fallback, and all are charged or none.
func TestBatch(t *testing.T) {
	fallback := by(map[string]guard.Fallback{
		"local": guard.Local, "local too": guard.Local, "allow": guard.Allow, "deny": guard.Deny,
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
						if charged := !denied || c.rs[i].Shadow; (d.Receipt != sluice.Receipt{}) != (charged && d.Allowed) {
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
		h := build(t, guard.Options{Fallback: by(map[string]guard.Fallback{"local": guard.Local, "allow": guard.Allow})})
		of := func(name string) *sluice.Limit { return limit(name, sluice.FixedWindow{Rate: sluice.PerDay(10)}) }
		denied := sluice.Decision{Reason: sluice.ReasonLimited, Limit: 10, RetryAfter: time.Hour, ResetAfter: time.Hour}
		h.fake.set(func(context.Context) error {
			return fmt.Errorf("a part: %w", &sluice.DenialError{Denied: map[int]sluice.Decision{1: denied}, Err: errors.New("one server is gone")})
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
		h := build(t, guard.Options{Default: guard.Allow})
		h.fake.set(func(ctx context.Context) error {
			<-ctx.Done()
			return &sluice.DenialError{Denied: map[int]sluice.Decision{0: {Reason: sluice.ReasonLimited}}, Err: ctx.Err()}
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
