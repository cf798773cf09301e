package vectors

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// A world is a store and its clock, in which one vector is replayed.
type world struct {
	*testing.T
	v      *vector
	store  sluice.Store
	server *redistest.Server // nil in memory
	prefix string            // all keys in Redis begin with it
	clock  atomic.Int64      // in microseconds; a vector on the real clock does not use it

	// The rest is for vectors that have steps.

	// latest is the latest time that the clock has shown.
	latest int64
	// back is how far the clock may go back: one period of the limit. A step further back happens
	// at the latest time, which is what the store's own clock would show. Zero allows any distance.
	back time.Duration
	// also holds further results of the step, which are compared with the step's fields.
	also fields
	// tolerance is how far numbers may differ: Sluice counts whole microseconds.
	tolerance float64
	// excuse, once set, is the reason why later steps may differ from the vector.
	excuse string
	// broken is set when NewLimit refuses the settings of a defect.
	broken bool
	// laws are checked after the last step.
	laws []func()
}

// worlds makes worlds in memory and on one Redis server.
type worlds struct {
	server *redistest.Server
	client *rueidisstore.Client
}

func newWorlds(t *testing.T) *worlds {
	t.Helper()
	server := redistest.Start(t)
	client, err := rueidisstore.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &worlds{server, client}
}

// run replays a vector in memory and in Redis.
func (ws *worlds) run(t *testing.T, v *vector, how replay) {
	t.Helper()
	prefix := v.ID + "/" + how.name
	t.Run("memory", func(t *testing.T) {
		w := newWorld(t, v, prefix, how)
		var o memory.Options
		if !how.realClock {
			o.Clock = w.now
		}
		store, err := memory.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		w.store = store
		how.run(w)
	})
	t.Run("redis", func(t *testing.T) {
		w := newWorld(t, v, prefix, how)
		var client redisstore.Client = ws.client
		if !how.realClock {
			client = redistest.WithClock(client, w.now)
		}
		store, err := redisstore.New(client, redisstore.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		w.store = store
		w.server = ws.server
		how.run(w)
		keys, err := ws.server.KeysWithoutTTL(t.Context())
		if err != nil || len(keys) > 0 {
			t.Errorf("keys without a time to live: %v, %v", keys, err)
		}
	})
}

func newWorld(t *testing.T, v *vector, prefix string, how replay) *world {
	t.Helper()
	w := &world{T: t, v: v, prefix: prefix}
	w.tolerance = 1.5e-6 * float64(time.Second) / float64(w.unit())
	w.clock.Store(how.start)
	return w
}

// now returns the time of the clock.
func (w *world) now() int64 { return w.clock.Load() }

// pass moves the clock on.
func (w *world) pass(d time.Duration) { w.clock.Add(int64(d / time.Microsecond)) }

// at runs f at another time.
func (w *world) at(now int64, f func() error) error {
	defer w.clock.Store(w.now())
	w.clock.Store(now)
	return f()
}

// advance sets the clock to the time of a step, and drops what the step before left in also.
func (w *world) advance(s fields) {
	w.also = nil
	if _, ok := s["t"].(float64); !ok {
		return
	}
	now := int64(span(s.num("t", 0), w.unit()) / time.Microsecond)
	if w.back > 0 && w.latest-now > int64(w.back/time.Microsecond) {
		now = w.latest
	}
	w.clock.Store(now)
	w.latest = max(w.latest, now)
}

// unit returns the unit of the vector's times.
func (w *world) unit() time.Duration {
	if w.v.TUnit == "ms" {
		return time.Millisecond
	}
	return time.Second
}

// in returns a time as a number of the vector's units.
func (w *world) in(d time.Duration) float64 { return float64(d) / float64(w.unit()) }

// limiter returns a limiter over the world's store.
func (w *world) limiter(name string, a sluice.Algorithm) (*sluice.Limiter, error) {
	limit, err := sluice.NewLimit(name, a)
	if err != nil {
		return nil, err
	}
	return sluice.NewLimiter(w.store, limit), nil
}

// mustLimiter is limiter for settings that are right.
func (w *world) mustLimiter(name string, a sluice.Algorithm) *sluice.Limiter {
	w.Helper()
	l, err := w.limiter(name, a)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// allow takes one unit.
func (w *world) allow(l *sluice.Limiter, key string) sluice.Decision {
	w.Helper()
	d, err := l.Allow(w.Context(), sluice.StringKey(key))
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// change gives a limiter other numbers.
func change(l *sluice.Limiter, a sluice.Algorithm) error {
	limit, err := sluice.NewLimit(l.Limit().Name(), a)
	if err != nil {
		return err
	}
	return l.SetLimit(limit)
}

// convert converts the state of a key to the limiter's present numbers, at the given time. It
// takes a unit and gives it back.
func (w *world) convert(l *sluice.Limiter, k sluice.Key, now int64) error {
	return w.at(now, func() error {
		r, err := l.Reserve(w.Context(), k, forever)
		if err != nil {
			return err
		}
		return r.Cancel(w.Context())
	})
}

// debtor returns the bucket with the largest debt that NewLimit accepts.
func debtor(b sluice.TokenBucket) sluice.TokenBucket {
	for b.Debt = 1 << 50; b.Debt > 1; b.Debt /= 2 {
		if _, err := sluice.NewLimit("", b); err == nil {
			break
		}
	}
	return b
}

// passed returns the result of a call that passes, or "rejected".
func passed(d sluice.Decision, result any) any {
	if !d.Allowed {
		return "rejected"
	}
	return result
}

// unknown reports an operation that the system does not have.
func unknown(s fields) (any, error) { return nil, fmt.Errorf("unknown operation: %v", s) }
