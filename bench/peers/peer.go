package peers

import (
	"context"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

// Limit is what a subject enforces for each key. A subject uses the fields that its algorithm needs.
type Limit struct {
	// Burst is how many units a key may take at once. A limiter that counts
	// windows admits this many per Window.
	Burst int

	// Every is the time in which a token bucket gets one unit back. For
	// throttled, Burst × Every must stay below 292 years.
	Every time.Duration

	// Window is the period of limiters that count windows.
	Window time.Duration
}

// perSecond returns the rate of a token bucket under l.
func (l Limit) perSecond() float64 { return 1 / l.Every.Seconds() }

// Limiter is a running limiter. It is safe for concurrent use.
type Limiter interface {
	// Take takes one unit for key and reports whether it was admitted.
	Take(key string) bool

	// Close ends the background work of the limiter.
	Close()
}

// A Peer makes limiters of one kind.
type Peer struct {
	Name   string // as the tables show it
	Module string // the Go module it comes from
	Keyed  bool   // whether keys have limits of their own
	Mapped bool   // whether the keys are in a map that we put around it
	// Approximate says that it estimates how much a key has used.
	Approximate bool
	New         func(Limit) (Limiter, error)

	// Middleware wraps a handler with the peer's own net/http middleware,
	// keyed by the client's address. It is nil if the peer has none.
	Middleware func(Limit) (func(http.Handler) http.Handler, error)
}

// All returns every peer.
func All() []Peer {
	return []Peer{
		{
			Name: "x/time/rate, single", Module: "golang.org/x/time",
			New: newXTimeSingle,
		}, {
			Name: "x/time/rate, map+mutex", Module: "golang.org/x/time", Keyed: true, Mapped: true,
			New: newXTimeMap,
		}, {
			Name: "sethvargo/go-limiter", Module: "github.com/sethvargo/go-limiter", Keyed: true,
			New: newSethvargo, Middleware: sethvargoMiddleware,
		}, {
			Name: "throttled", Module: "github.com/throttled/throttled/v2", Keyed: true,
			New: newThrottled, Middleware: throttledMiddleware,
		}, {
			Name: "ulule/limiter", Module: "github.com/ulule/limiter/v3", Keyed: true,
			New: newUlule, Middleware: ululeMiddleware,
		}, {
			Name: "go-chi/httprate", Module: "github.com/go-chi/httprate", Keyed: true, Approximate: true,
			New: newHTTPRate, Middleware: httprateMiddleware,
		}, {
			Name: "tollbooth", Module: "github.com/didip/tollbooth/v8", Keyed: true,
			New: newTollbooth, Middleware: tollboothMiddleware,
		}, {
			Name: "failsafe-go, single", Module: "github.com/failsafe-go/failsafe-go",
			New: newFailsafeSingle,
		}, {
			Name: "failsafe-go, map+mutex", Module: "github.com/failsafe-go/failsafe-go", Keyed: true, Mapped: true,
			New: newFailsafeMap,
		}, {
			Name: "juju/ratelimit, map+mutex", Module: "github.com/juju/ratelimit", Keyed: true, Mapped: true,
			New: newJujuMap,
		},
	}
}

// RedisLimiter is a running limiter whose state is in Redis. It is safe for concurrent use.
type RedisLimiter interface {
	// Take takes one unit for key and reports whether it was admitted.
	Take(ctx context.Context, key string) (bool, error)
}

// A RedisPeer makes limiters of one kind over Redis.
type RedisPeer struct {
	Name   string // as the tables show it
	Module string // the Go module it comes from

	// New makes one over the server of client. The limiter uses the connections of
	// client if it can, and otherwise its own, which end closes.
	New func(client *redis.Client, l Limit) (limiter RedisLimiter, end func() error, err error)
}

// AllRedis returns every peer over Redis.
func AllRedis() []RedisPeer {
	return []RedisPeer{
		{"go-redis/redis_rate", "github.com/go-redis/redis_rate/v10", newRedisRate},
		{"ulule/limiter", "github.com/ulule/limiter/v3", newUluleRedis},
		{"sethvargo/go-redisstore", "github.com/sethvargo/go-redisstore", newSethvargoRedis},
		{"throttled", "github.com/throttled/throttled/v2", newThrottledRedis},
	}
}

// nothing ends a limiter that has no connections of its own.
func nothing() error { return nil }
