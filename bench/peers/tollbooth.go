package peers

import (
	"net/http"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
)

// booth is tollbooth's token bucket per key, in a cache that expires.
type booth struct{ limiter *limiter.Limiter }

func newTollbooth(l Limit) (Limiter, error) { return booth{newBooth(l)}, nil }

func newBooth(l Limit) *limiter.Limiter {
	options := &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour}
	return tollbooth.NewLimiter(l.perSecond(), options).
		SetBurst(l.Burst).
		SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
}

func (b booth) Take(key string) bool { return !b.limiter.LimitReached(key) }
func (b booth) Close()               {}

func tollboothMiddleware(l Limit) (func(http.Handler) http.Handler, error) {
	return tollbooth.HTTPMiddleware(newBooth(l).SetIgnoreURL(true)), nil
}
