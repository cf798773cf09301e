package peers

import "github.com/failsafe-go/failsafe-go/ratelimiter"

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
