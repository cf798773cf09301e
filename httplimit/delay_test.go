package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// begin serves a request in a goroutine of its own and returns its response.
func begin(h http.Handler, r *http.Request) (*httptest.ResponseRecorder, *atomic.Bool) {
	w, done := httptest.NewRecorder(), &atomic.Bool{}
	go func() {
		h.ServeHTTP(w, r)
		done.Store(true)
	}()
	synctest.Wait()
	return w, done
}

func TestDelayedRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		h := limited(t, bubbleStore(t), sluice.LeakyBucket{Rate: sluice.PerSecond(2), Queue: 2}, httplimit.Options{},
			func(http.ResponseWriter, *http.Request) {
				mu.Lock()
				at = append(at, time.Since(start))
				mu.Unlock()
			})
		for range 3 {
			begin(h, get("/"))
		}
		if code := status(h); code != 429 {
			t.Errorf("beyond the queue: status %d", code)
		}
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(at) != "[0s 500ms 1s]" {
			t.Errorf("handled at %v", at)
		}
	})
}

// A client that disconnects while it waits is not served, and the next request gets
// its turn in the queue.
func TestClientGoneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		served := 0
		queue := sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 2}
		h := limited(t, store, queue, httplimit.Options{}, func(http.ResponseWriter, *http.Request) { served++ })
		status(h)
		ctx, leave := context.WithCancel(t.Context())
		w, done := begin(h, get("/").WithContext(ctx))
		if before := remaining(t, store, queue); done.Load() || before != 1 {
			t.Errorf("waiting: done %v, %d turns left", done.Load(), before)
		}
		leave()
		synctest.Wait()
		if after := remaining(t, store, queue); !done.Load() || served != 1 || after != 2 || w.Code != 499 {
			t.Errorf("gone: done %v, %d served, %d turns left, status %d", done.Load(), served, after, w.Code)
		}
	})
}

// When a client disconnects, the charges of its other limits are given back too.
func TestClientGoneGivesAllBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		queue := sluice.MustLimit("queue", sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 2})
		daily := sluice.MustLimit("daily", sluice.FixedWindow{Rate: sluice.PerDay(10)})
		flight := sluice.MustLimit("flight", sluice.Concurrency{Max: 5})
		d := keyed(t, httplimit.KeyOptions{
			Store: store, Limits: []*sluice.Limit{queue, daily, flight}, Key: []policy.Part{policy.Constant("all")},
		})
		h := wrap(t, d, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }}, nothing)
		left := func() (n [3]int64) {
			for i, l := range []*sluice.Limit{queue, daily, flight} {
				d, err := sluice.NewLimiter(store, l).PeekN(t.Context(), sluice.StringKey("all"), 0)
				if err != nil {
					t.Fatal(err)
				}
				n[i] = d.Remaining
			}
			return n
		}
		status(h)
		ctx, leave := context.WithCancel(t.Context())
		begin(h, get("/").WithContext(ctx))
		if got := left(); got != [3]int64{1, 8, 4} {
			t.Errorf("remaining while it waits: %v", got)
		}
		leave()
		synctest.Wait()
		if got := left(); got != [3]int64{2, 9, 5} {
			t.Errorf("remaining after it left: %v", got)
		}
	})
}

// A request whose delay would be too long is denied at once, and takes nothing.
func TestDelaysBeyondMaxDelayAreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			most  time.Duration
			again string
		}{{time.Second, "2"}, {-1, "3"}} {
			store := bubbleStore(t)
			queue := sluice.LeakyBucket{Rate: sluice.Every(3 * time.Second), Queue: 5}
			h := limited(t, store, queue, httplimit.Options{MaxDelay: c.most}, nothing)
			status(h)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, get("/"))
			if w.Code != 429 || w.Header().Get("Retry-After") != c.again || remaining(t, store, queue) != 5 {
				t.Errorf("MaxDelay %v: status %d, %v, %d turns left", c.most, w.Code, w.Header(), remaining(t, store, queue))
			}
		}
	})
}

func TestDeadlineBeforeTheDelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		queue := sluice.LeakyBucket{Rate: sluice.Every(3 * time.Second), Queue: 5}
		h := limited(t, store, queue, httplimit.Options{}, nothing)
		status(h)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/").WithContext(ctx))
		if w.Code != 503 || time.Since(start) > 0 || remaining(t, store, queue) != 5 || w.Header().Get("Retry-After") != "3" {
			t.Errorf("status %d after %v, %v", w.Code, time.Since(start), w.Header())
		}
	})
}

// At most MaxWaiting requests wait; the next one is denied.
func TestNoMoreThanMaxWaitingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		queue := sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 9}
		d := keyed(t, httplimit.KeyOptions{
			Store: store, Limits: []*sluice.Limit{sluice.MustLimit("l", queue)}, Key: []policy.Part{policy.Constant("all")},
		})
		m, err := httplimit.New(d, httplimit.Options{MaxWaiting: 2})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Wrap(nothing)
		for range 3 {
			begin(h, get("/"))
		}
		if m.Waiting() != 2 {
			t.Errorf("%d are waiting", m.Waiting())
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/"))
		if w.Code != 503 || w.Header().Get("Retry-After") != "3" || remaining(t, store, queue) != 7 {
			t.Errorf("one too many: status %d, %v, %d turns left", w.Code, w.Header(), remaining(t, store, queue))
		}
		<-time.After(time.Minute)
		if m.Waiting() != 0 {
			t.Errorf("%d are still waiting", m.Waiting())
		}
	})
}

// MaxWait lets requests wait for a token bucket, which has no queue itself.
func TestWaitForTokenBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := wrap(t, keyed(t, httplimit.KeyOptions{
			Store: bubbleStore(t), MaxWait: 2 * time.Second, Key: []policy.Part{policy.Constant("all")},
			Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 1})},
		}), httplimit.Options{}, nothing)
		begin(h, get("/"))
		begin(h, get("/"))
		_, done := begin(h, get("/"))
		if code := status(h); code != 429 {
			t.Errorf("beyond MaxWait: status %d", code)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if !done.Load() {
			t.Errorf("not handled after %v", time.Since(start))
		}
	})
}
