package peers

import (
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"
)

// chi is go-chi/httprate's sliding counter. The module decides only inside
// its middleware; Take does what RateLimiter.OnLimit does, without headers.
type chi struct {
	mu      sync.Mutex
	limiter *httprate.RateLimiter
	limit   int
	window  time.Duration
}

func newHTTPRate(l Limit) (Limiter, error) {
	counter := httprate.NewLocalLimitCounter(l.Window)
	return &chi{
		limiter: httprate.NewRateLimiter(l.Burst, l.Window, httprate.WithLimitCounter(counter)),
		limit:   l.Burst,
		window:  l.Window,
	}, nil
}

func (c *chi) Take(key string) bool {
	current := time.Now().UTC().Truncate(c.window)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, rate, err := c.limiter.Status(key)
	if err != nil || int(math.Round(rate))+1 > c.limit {
		return false
	}
	return c.limiter.Counter().IncrementBy(key, current, 1) == nil
}

func (c *chi) Close() {}

func httprateMiddleware(l Limit) (func(http.Handler) http.Handler, error) {
	byIP := func(r *http.Request) (string, error) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(ip), err
	}
	return httprate.LimitBy(l.Burst, l.Window, byIP), nil
}
