package peers

import (
	"sync"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"
)

// mutexMap makes a keyed limiter from limiters for one key, as most services do by hand: a map under a
// mutex, which it holds only during the look-up.
type mutexMap[L any] struct {
	mu   sync.Mutex
	keys map[string]L
	make func() L
	take func(L) bool
}

func newMutexMap[L any](newLimiter func() L, take func(L) bool) *mutexMap[L] {
	return &mutexMap[L]{keys: make(map[string]L), make: newLimiter, take: take}
}

func (m *mutexMap[L]) Take(key string) bool {
	m.mu.Lock()
	l, ok := m.keys[key]
	if !ok {
		l = m.make()
		m.keys[key] = l
	}
	m.mu.Unlock()
	return m.take(l)
}

func (m *mutexMap[L]) Close() {}

// xtimeSingle is one golang.org/x/time/rate limiter for all keys.
type xtimeSingle struct{ limiter *rate.Limiter }

func newXTimeSingle(l Limit) (Limiter, error) {
	return xtimeSingle{newXTime(l)}, nil
}

func (x xtimeSingle) Take(string) bool { return x.limiter.Allow() }
func (x xtimeSingle) Close()           {}

func newXTimeMap(l Limit) (Limiter, error) {
	return newMutexMap(func() *rate.Limiter { return newXTime(l) }, (*rate.Limiter).Allow), nil
}

func newXTime(l Limit) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(l.perSecond()), l.Burst)
}

// failsafeSingle is one bursty failsafe-go limiter for all keys: fixed
// windows. (Its smooth limiter admits no burst.)
type failsafeSingle struct{ limiter ratelimiter.RateLimiter[any] }

func newFailsafeSingle(l Limit) (Limiter, error) {
	return failsafeSingle{newFailsafe(l)}, nil
}

func (f failsafeSingle) Take(string) bool { return f.limiter.TryAcquirePermit() }
func (f failsafeSingle) Close()           {}

func newFailsafeMap(l Limit) (Limiter, error) {
	return newMutexMap(
		func() ratelimiter.RateLimiter[any] { return newFailsafe(l) },
		ratelimiter.RateLimiter[any].TryAcquirePermit,
	), nil
}

func newFailsafe(l Limit) ratelimiter.RateLimiter[any] {
	return ratelimiter.NewBursty[any](uint(l.Burst), l.Window)
}

func newJujuMap(l Limit) (Limiter, error) {
	return newMutexMap(
		func() *ratelimit.Bucket { return ratelimit.NewBucket(l.Every, int64(l.Burst)) },
		func(b *ratelimit.Bucket) bool { return b.TakeAvailable(1) == 1 },
	), nil
}
