package peers

import "golang.org/x/time/rate"

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
