package httplimit_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// A request holds its lease until its handler returns or panics.
func TestLeasesLastUntilTheHandlerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		leave := make(chan bool)
		h := limited(t, store, sluice.Concurrency{Max: 2}, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }},
			func(http.ResponseWriter, *http.Request) {
				if <-leave {
					panic(http.ErrAbortHandler)
				}
			})
		quiet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover() }()
			h.ServeHTTP(w, r)
		})
		_, first := begin(quiet, get("/"))
		_, second := begin(quiet, get("/"))
		if code := status(quiet); code != 429 {
			t.Errorf("one too many: status %d", code)
		}
		// The requests last longer than a lease that nobody renews.
		<-time.After(10 * time.Minute)
		if code := status(quiet); code != 429 {
			t.Errorf("one too many after ten minutes: status %d", code)
		}
		for _, panics := range []bool{true, false} {
			leave <- panics
			synctest.Wait()
		}
		if !first.Load() || !second.Load() || remaining(t, store, sluice.Concurrency{Max: 2}) != 2 {
			t.Errorf("after both requests: %d free", remaining(t, store, sluice.Concurrency{Max: 2}))
		}
		if keys := store.Stats().Keys; keys > 1 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// A queued request runs when a unit is free, not at the estimated time.
func TestConcurrencyQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		leave := make(chan struct{})
		h := limited(t, bubbleStore(t), sluice.Concurrency{Max: 1, Queue: 1, Latency: 100 * time.Millisecond}, httplimit.Options{MaxDelay: time.Minute},
			func(http.ResponseWriter, *http.Request) {
				most.Store(max(most.Load(), running.Add(1)))
				<-leave
				running.Add(-1)
			})
		begin(h, get("/"))
		_, second := begin(h, get("/"))
		<-time.After(10 * time.Second)
		if n := running.Load(); n != 1 {
			t.Errorf("%d are running", n)
		}
		leave <- struct{}{}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := running.Load(); n != 1 || second.Load() {
			t.Errorf("%d are running after the first left", n)
		}
		leave <- struct{}{}
		synctest.Wait()
		if !second.Load() || most.Load() != 1 {
			t.Errorf("done: %v; %d ran at once", second.Load(), most.Load())
		}
	})
}

// A queued request that cannot wait any longer leaves the queue.
func TestConcurrencyQueueMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		limit := sluice.Concurrency{Max: 1, Queue: 1, Latency: 100 * time.Millisecond}
		leave := make(chan struct{})
		h := limited(t, store, limit, httplimit.Options{MaxDelay: time.Second}, func(http.ResponseWriter, *http.Request) { <-leave })
		begin(h, get("/"))
		w, second := begin(h, get("/"))
		<-time.After(2 * time.Second)
		if !second.Load() || w.Code != 429 || remaining(t, store, limit) != 1 {
			t.Errorf("done %v: status %d, %d units left", second.Load(), w.Code, remaining(t, store, limit))
		}
		close(leave)
		synctest.Wait()
	})
}

// A queued request waits for a free unit even if the limit has no estimated latency.
func TestConcurrencyQueueWithoutALatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		h := limited(t, bubbleStore(t), sluice.Concurrency{Max: 1, Queue: 1}, httplimit.Options{}, func(http.ResponseWriter, *http.Request) { <-leave })
		begin(h, get("/"))
		_, second := begin(h, get("/"))
		leave <- struct{}{}
		<-time.After(time.Second)
		synctest.Wait()
		if second.Load() {
			t.Error("both were running")
		}
		leave <- struct{}{}
		synctest.Wait()
		if !second.Load() {
			t.Error("the second did not run")
		}
	})
}

// A lease of a shadow rule ends with the request, even if another rule refuses the
// request.
func TestShadowLeaseOfRefusedRequest(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "flight", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 5})}, Shadow: true},
		{Name: "few", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(1)})}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(t, d, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }}, nothing)
	for i, want := range []int{200, 429, 429} {
		if got := status(h); got != want {
			t.Errorf("request %d: status %d", i, got)
		}
	}
	v := d.Policy().Peek(t.Context(), store, &policy.Attributes{})
	if got := v.Results[0].Decision.Remaining; got != 5 {
		t.Errorf("%d of 5 units are free", got)
	}
}
