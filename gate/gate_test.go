package gate_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

func TestGateOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		o    gate.Options
		want string
	}{
		{gate.Options{MaxWaiting: -1}, "MaxWaiting is -1; give 1 or more"},
		{gate.Options{Window: 1}, "Window is 1ns; give 1ms or more"},
		{gate.Options{Share: sluice.Share{Of: 3, Parts: 2}}, "Share: sluice: share is 3/2; give more than 0 and up to 1"},
		{gate.Options{Share: sluice.Share{Of: -1, Parts: 1}}, "share is -1/1"},
	} {
		if _, err := gate.New(nil, c.o); err == nil || !strings.HasPrefix(err.Error(), "gate: Options.") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("options %+v: error %v, want one with %q", c.o, err, c.want)
		}
	}
}

func TestVerdictsThatNeedNothingHaveNoAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{Name: "r", Limits: limit(sluice.FixedWindow{Rate: sluice.PerHour(1)})})
		first := e.enter(t.Context(), "a")
		if first.admission != nil || first.err != nil || first.admission.Settles() {
			t.Errorf("the first request: %+v", first)
		}
		first.admission.Leave(t.Context(), status(200))
		if second := e.enter(t.Context(), "a"); !errors.Is(second.err, gate.ErrDenied) || second.admission != nil {
			t.Errorf("the second request: %+v", second)
		}
	})
}

// Requests wait for the delay that the store returned.
func TestRequestsWaitForTheirDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{Name: "r", Limits: limit(sluice.LeakyBucket{Rate: sluice.PerSecond(2), Queue: 2})})
		var all []*entry
		for range 4 {
			all = append(all, e.begin(t.Context(), "a"))
		}
		if n := e.gate.Waiting(); n != 2 {
			t.Errorf("%d are waiting", n)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		for i, want := range []time.Duration{0, 500 * time.Millisecond, time.Second, 0} {
			if n := all[i]; n.at.Sub(start) != want || (n.err != nil) != (i == 3) {
				t.Errorf("request %d: after %v, %v", i, n.at.Sub(start), n.err)
			}
			if got := all[i].verdict.Waited; got != want {
				t.Errorf("request %d: the verdict has a wait of %v, want %v", i, got, want)
			}
		}
		if n := e.gate.Waiting(); n != 0 {
			t.Errorf("%d are still waiting", n)
		}
	})
}

// A request that cannot wait is refused at once, by the rule with the queue, and its charges are
// given back.
func TestRequestsThatCannotWaitAreRefusedAtOnce(t *testing.T) {
	queue := func(change func(*policy.Rule)) policy.Rule {
		r := policy.Rule{Name: "queue", Limits: limit(sluice.LeakyBucket{Rate: sluice.Every(3 * time.Second), Queue: 99})}
		if change != nil {
			change(&r)
		}
		return r
	}
	for _, c := range []struct {
		name    string
		options gate.Options
		rule    policy.Rule
		before  []string // requests that wait or were admitted already
		want    error
		rest    string // of the error
		again   time.Duration
	}{
		{"later than allowed", gate.Options{MaxDelay: time.Second}, queue(nil), []string{"a"}, gate.ErrTooLate, `rule "queue": the wait is longer`, 2 * time.Second},
		{"none may wait", gate.Options{MaxDelay: -1}, queue(nil), []string{"a"}, gate.ErrTooLate, "", 3 * time.Second},
		{"later than the default", gate.Options{}, queue(nil), []string{"a", "a", "a", "a"}, gate.ErrTooLate, "", 2 * time.Second},
		{"the queue is full", gate.Options{}, queue(func(r *policy.Rule) { r.MaxWaiting = 2 }), []string{"a", "a", "b", "b", "c"}, gate.ErrQueueFull, "the queue is full", 3 * time.Second},
		{"the key's part of the queue is full", gate.Options{}, queue(func(r *policy.Rule) { r.MaxWaitingPerKey = 1 }), []string{"c", "c"}, gate.ErrKeyQueueFull, "full of the key's requests", 6 * time.Second},
		{"too many in the gate", gate.Options{MaxWaiting: 1}, queue(nil), []string{"a", "a", "c"}, gate.ErrTooManyWaiting, "too many", 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				e := newEdge(t, bubbleStore(t), c.options, c.rule)
				for _, k := range c.before {
					e.begin(ctx, k)
				}
				mine := "c"
				if c.before[0] == "a" && c.before[len(c.before)-1] == "a" {
					mine = "a"
				}
				before, start := e.remaining("queue", mine), time.Now()
				n := e.enter(ctx, mine)
				var typed *gate.Error
				if !errors.Is(n.err, c.want) || !errors.As(n.err, &typed) || typed.Rule != "queue" || !strings.Contains(n.err.Error(), c.rest) {
					t.Errorf("got %v", n.err)
				}
				if n.at != start {
					t.Errorf("refused after %v", n.at.Sub(start))
				}
				v := &n.verdict
				if !errors.Is(v.Refused, n.err) || v.Err != nil || v.Results[0].Decision.Allowed || !v.Results[0].Returned || v.Results[0].Charged() {
					t.Errorf("the result is %+v, refused %v, err %v", v.Results[0], v.Refused, v.Err)
				}
				if v.Allowed() || v.Rule == nil || v.Rule.Name != "queue" || v.Reason != sluice.ReasonLimited || v.RetryAfter() != c.again || v.Delay != 0 {
					t.Errorf("the verdict is %+v", v)
				}
				if after := e.remaining("queue", mine); after != before {
					t.Errorf("%d units were left before, and %d are after", before, after)
				}
				leave()
				synctest.Wait()
				if n := e.gate.Waiting(); n != 0 || len(e.reported()) > 0 {
					t.Errorf("%d are waiting, reported %v", n, e.reported())
				}
			})
		})
	}
}

// A noisy key fills only its part of the queue.
func TestANoisyKeyDoesNotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{MaxDelay: time.Hour}, policy.Rule{
			Name: "r", MaxWaiting: 8, Limits: limit(sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 99}),
		})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		refused := 0
		for range 50 {
			if n := e.begin(ctx, "noisy"); n.done && n.err != nil {
				refused++
			}
		}
		if refused != 47 { // one is admitted, and two wait
			t.Errorf("%d requests of the noisy key were refused", refused)
		}
		for _, k := range []string{"a", "b", "c"} {
			for range 3 {
				if n := e.begin(ctx, k); n.done && n.err != nil {
					t.Errorf("%s was refused: %v", k, n.err)
				}
			}
		}
		if n := e.gate.Waiting(); n != 8 {
			t.Errorf("%d wait", n)
		}
		leave()
		synctest.Wait()
	})
}

// If all requests have the same key, it has the whole queue.
func TestTheOnlyKeyHasTheWholeQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{
			Name: "r", MaxWaiting: 4, Key: []policy.Part{policy.Global()}, Limits: limit(sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 99}),
		})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for i := range 6 {
			if n := e.begin(ctx, "a"); (n.err != nil) != (i == 5) {
				t.Errorf("request %d: %v", i, n.err)
			}
		}
		leave()
		synctest.Wait()
	})
}

// A request that leaves the queue frees its turn at once. Its reserved time is given back only if it was the last.
func TestLeavingTheQueue(t *testing.T) {
	for _, c := range []struct {
		leaver int
		next   time.Duration // when the next request has its turn
	}{{1, 3 * time.Second}, {2, 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{
				Name: "r", MaxWaiting: 2, MaxWaitingPerKey: 2, Limits: limit(sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 9}),
			})
			start := time.Now()
			ctx, leave := context.WithCancel(t.Context())
			for i := range 3 {
				if i == c.leaver {
					e.begin(ctx, "a")
				} else {
					e.begin(t.Context(), "a")
				}
			}
			if n := e.enter(t.Context(), "a"); !errors.Is(n.err, gate.ErrQueueFull) {
				t.Fatalf("the queue has room: %v", n.err)
			}
			leave()
			synctest.Wait()
			next := e.begin(t.Context(), "a")
			<-time.After(time.Minute)
			synctest.Wait()
			if next.err != nil || next.at.Sub(start) != c.next {
				t.Errorf("after %d left, the next turn was after %v: %v", c.leaver, next.at.Sub(start), next.err)
			}
		})
	}
}

func TestDeadlineBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{Name: "r", Limits: limit(sluice.LeakyBucket{Rate: sluice.Every(3 * time.Second), Queue: 5})})
		e.enter(t.Context(), "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		n := e.enter(ctx, "a")
		if !errors.Is(n.err, sluice.ErrDeadline) || n.at != start || e.remaining("r", "a") != 5 {
			t.Errorf("after %v: %v", n.at.Sub(start), n.err)
		}
	})
}

// A client that leaves while its request waits is charged nothing.
func TestGoneGivesAllBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{},
			policy.Rule{Name: "queue", Limits: limit(sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 2})},
			policy.Rule{Name: "daily", Limits: limit(sluice.FixedWindow{Rate: sluice.PerDay(10)})},
			policy.Rule{Name: "flight", Limits: limit(sluice.Concurrency{Max: 5})},
			policy.Rule{Name: "soft", Limits: limit(sluice.FixedWindow{Rate: sluice.PerDay(10)}), WhenLimited: policy.LimitedAction{Action: policy.Mark}},
		)
		left := func() string {
			return fmt.Sprint(e.remaining("queue", "a"), e.remaining("daily", "a"), e.remaining("flight", "a"), e.remaining("soft", "a"))
		}
		e.enter(t.Context(), "a").admission.Leave(t.Context(), status(200))
		ctx, leave := context.WithCancel(t.Context())
		n := e.begin(ctx, "a")
		if got := left(); got != "1 8 4 8" {
			t.Errorf("remaining while it waits: %s", got)
		}
		leave()
		synctest.Wait()
		if got := left(); got != "2 9 5 9" || !errors.Is(n.err, context.Canceled) || n.verdict.Allowed() {
			t.Errorf("remaining after it left: %s: %v", got, n.err)
		}
		if errs := e.reported(); len(errs) > 0 {
			t.Errorf("the client that left caused errors: %v", errs)
		}
	})
}

// Waiting needs only the request's own goroutine. It leaves none behind, or the bubble would not end.
func TestWaitersHaveNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{MaxDelay: time.Hour},
			policy.Rule{Name: "r", MaxWaiting: 500, MaxWaitingPerKey: 500, Limits: limit(sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 500})},
			policy.Rule{Name: "f", MaxWaiting: 500, MaxWaitingPerKey: 500, Limits: limit(sluice.Concurrency{Max: 1, Queue: 500, Latency: 100 * time.Millisecond})},
		)
		before := runtime.NumGoroutine()
		ctx, leave := context.WithCancel(t.Context())
		for range 201 {
			e.begin(ctx, "a")
		}
		if n := runtime.NumGoroutine() - before; n > 200 {
			t.Errorf("200 waiters have %d goroutines", n)
		}
		leave()
		synctest.Wait()
		if n := e.gate.Waiting(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}
