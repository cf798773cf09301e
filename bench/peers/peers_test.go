package peers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/checks/redistest"
)

// slow returns a limit that refills nothing while a test runs.
func slow(burst int) Limit {
	return Limit{Burst: burst, Every: time.Hour, Window: 24 * time.Hour}
}

// TestAdaptersLimit checks that every adapter admits its burst for each key and then denies, so that their
// speeds are comparable. It does not test the peers.
func TestAdaptersLimit(t *testing.T) {
	const burst, keys = 20, 50
	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			l, err := p.New(slow(burst))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			admitted := 0
			for range 2 * burst {
				for k := range keys {
					if l.Take(fmt.Sprint("key-", k)) {
						admitted++
					}
				}
			}
			want := burst
			if p.Keyed {
				want *= keys
			}
			if admitted != want {
				t.Errorf("admitted %d, want %d", admitted, want)
			}
		})
	}
}

// TestAdaptersAreSafeForConcurrentUse makes calls from four goroutines, which admit exactly the bursts.
func TestAdaptersAreSafeForConcurrentUse(t *testing.T) {
	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			l, err := p.New(slow(100))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for i := range 200 {
						if l.Take(fmt.Sprint("key-", i%2)) {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			want := int64(100)
			if p.Keyed {
				want *= 2
			}
			if got := admitted.Load(); got != want {
				t.Errorf("admitted %d of 800, want %d", got, want)
			}
		})
	}
}

// Every peer's middleware admits its burst and then denies, so that their speeds are comparable.
func TestMiddlewaresLimit(t *testing.T) {
	const burst = 5
	for _, p := range All() {
		if p.Middleware == nil {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			wrap, err := p.Middleware(slow(burst))
			if err != nil {
				t.Fatal(err)
			}
			h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			for i := range 2 * burst {
				for _, client := range []string{"192.0.2.1:1000", "192.0.2.2:2000"} {
					r := httptest.NewRequest(http.MethodGet, "/", nil)
					r.RemoteAddr = client
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					want := http.StatusOK
					if i >= burst {
						want = http.StatusTooManyRequests
					}
					if w.Code != want {
						t.Errorf("request %d of %s: got %d, want %d", i+1, client, w.Code, want)
					}
				}
			}
		})
	}
}

// TestRedisAdaptersLimit does the same for the adapters over Redis.
func TestRedisAdaptersLimit(t *testing.T) {
	const burst, keys = 5, 10
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, p := range AllRedis() {
		t.Run(p.Name, func(t *testing.T) {
			l, end, err := p.New(client, slow(burst))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := end(); err != nil {
					t.Error(err)
				}
			}()
			for n := range 2 * burst {
				for k := range keys {
					admitted, err := l.Take(t.Context(), fmt.Sprintf("%d:%d", i, k))
					if err != nil {
						t.Fatal(err)
					}
					if want := n < burst; admitted != want {
						t.Errorf("request %d of key %d: admitted is %v, want %v", n+1, k, admitted, want)
					}
				}
			}
		})
	}
}

// TestRedisAdaptersReportErrors checks that a dead server is an error, and admits nothing.
func TestRedisAdaptersReportErrors(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	limiters := map[string]RedisLimiter{}
	for _, p := range AllRedis() {
		l, end, err := p.New(client, slow(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		})
		limiters[p.Name] = l
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for name, l := range limiters {
		if admitted, err := l.Take(t.Context(), "key"); err == nil || admitted {
			t.Errorf("%s: admitted is %v, error %v", name, admitted, err)
		}
	}
}
