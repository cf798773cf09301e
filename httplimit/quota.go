package httplimit

import (
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// quota is the part of the headers that depends only on the limit. It is rendered once.
type quota struct {
	limit *sluice.Limit
	// policy is the limit's item of RateLimit-Policy.
	policy string
	// remaining is the beginning of its item of RateLimit, up to the number.
	remaining string
	// envoy is its item of X-RateLimit-Limit in Envoy's form.
	envoy string
	// count and period, if set, are a bucket's: a unit comes back every
	// period/count.
	count  uint64
	period time.Duration
}

func newQuota(l *sluice.Limit) *quota {
	// A bucket's window is the time in which it fills: the same rate as the
	// limit's, and never less than remains.
	units, window := min(l.Capacity(), maxInteger), l.TimeToFull()
	q := &quota{limit: l}
	unit := ""
	switch a := l.Algorithm().(type) {
	case sluice.TokenBucket:
		if a.WarmUp == 0 {
			q.count, q.period = uint64(a.Rate.Count()), a.Rate.Period()
		}
	case sluice.LeakyBucket:
		q.count, q.period = uint64(a.Rate.Count()), a.Rate.Period()
	case sluice.FixedWindow:
		if a.Calendar == sluice.CalendarMonth {
			window = 0 // months differ; the window may be left out
		}
	case sluice.Concurrency:
		unit = `;qu="concurrent-requests"`
	}
	name := string(appendString(nil, l.Name()))
	q.remaining = name + ";r="
	q.policy = name + ";q=" + strconv.FormatInt(units, 10) + unit
	q.envoy = strconv.FormatInt(units, 10)
	if window > 0 {
		w := ";w=" + strconv.FormatInt(seconds(window), 10)
		q.policy += w
		q.envoy += w
	}
	q.envoy += ";name=" + name
	return q
}

// mulDiv returns n·d/count, rounded up, or the longest time if it is more.
func mulDiv(n uint64, d time.Duration, count uint64) time.Duration {
	hi, lo := bits.Mul64(n, uint64(d))
	if hi >= count {
		return 1<<63 - 1
	}
	quo, rem := bits.Div64(hi, lo, count)
	if rem > 0 {
		quo++
	}
	return time.Duration(min(quo, 1<<63-1))
}

// more returns the time until more units can be taken than now; floor units must remain. It is exact
// for buckets. For other algorithms it is the time until all units are back.
func (q *quota) more(d *sluice.Decision, floor int64) time.Duration {
	if q.count == 0 || d.Remaining >= d.Limit {
		return d.ResetAfter
	}
	missing := d.Limit - d.Remaining - 1 - floor
	if missing <= 0 {
		return d.ResetAfter
	}
	return max(0, d.ResetAfter-mulDiv(uint64(missing), q.period, q.count))
}

// seconds rounds up, like all times in headers, because a client that comes too early is refused.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// mostQuotas bounds the cache: each change of a limit makes a new limit.
const mostQuotas = 1 << 14

// quotas caches the quotas of limits.
type quotas struct {
	last  atomic.Pointer[quota] // of the newest limit: many programs have only one
	known sync.Map              // *sluice.Limit → *quota
	count atomic.Int64
}

func (c *quotas) of(l *sluice.Limit) *quota {
	if q := c.last.Load(); q != nil && q.limit == l {
		return q
	}
	if q, ok := c.known.Load(l); ok {
		return q.(*quota)
	}
	q := newQuota(l)
	c.last.Store(q)
	if _, there := c.known.LoadOrStore(l, q); !there && c.count.Add(1) > mostQuotas {
		// Entries in use come back at once.
		c.count.Store(0)
		c.known.Clear()
	}
	return q
}
