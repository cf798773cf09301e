package peers

import (
	"context"
	"net/http"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// ulule is a store of fixed windows that open with the key's first request.
type ulule struct{ limiter *limiter.Limiter }

func newUlule(l Limit) (Limiter, error) { return ulule{newUluleLimiter(l)}, nil }

// newUluleLimiter cleans up once an hour instead of every 30 seconds, so that
// no walk over a million keys falls into a measurement.
func newUluleLimiter(l Limit) *limiter.Limiter {
	store := memory.NewStoreWithOptions(limiter.StoreOptions{
		Prefix:          limiter.DefaultPrefix,
		CleanUpInterval: time.Hour,
	})
	return limiter.New(store, limiter.Rate{Period: l.Window, Limit: int64(l.Burst)})
}

func (u ulule) Take(key string) bool {
	c, err := u.limiter.Get(context.Background(), key)
	return !c.Reached && err == nil
}

func (u ulule) Close() {}

func ululeMiddleware(l Limit) (func(http.Handler) http.Handler, error) {
	return stdlib.NewMiddleware(newUluleLimiter(l)).Handler, nil
}
