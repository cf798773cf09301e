package peers

import "github.com/juju/ratelimit"

func newJujuMap(l Limit) (Limiter, error) {
	return newMutexMap(
		func() *ratelimit.Bucket { return ratelimit.NewBucket(l.Every, int64(l.Burst)) },
		func(b *ratelimit.Bucket) bool { return b.TakeAvailable(1) == 1 },
	), nil
}
