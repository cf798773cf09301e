package resp

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/share"
)

// ThrottleName is the name of the limit of CL.THROTTLE, whatever its numbers, and the name of its rule in metrics
// and logs. No rule of a file can have it.
const ThrottleName = "(cl.throttle)"

// numbers are the numbers that a client gives with CL.THROTTLE.
type numbers struct{ maxBurst, count, period int64 }

// The largest numbers of CL.THROTTLE.
const (
	maxBurst  = algo.MaxUnits - 2
	maxPeriod = int64(100 * 365 * 24 * time.Hour / time.Second)
)

// problem returns why there is no limit with these numbers; empty if there is one. Its tests are cheap, because clients
// choose the numbers.
func (n numbers) problem() string {
	switch {
	case n.count == 0 || n.period == 0:
		return "Zero rates are not supported"
	case n.maxBurst < 0 || n.maxBurst > maxBurst:
		return fmt.Sprintf("max_burst is %d; give 0 to %d", n.maxBurst, int64(maxBurst))
	case n.count < 0 || n.count > algo.MaxCount:
		return fmt.Sprintf("count is %d; give 1 to %d", n.count, int64(algo.MaxCount))
	case n.period < 0 || n.period > maxPeriod:
		return fmt.Sprintf("period is %d; give 1 to %d seconds", n.period, maxPeriod)
	case !algo.NewPace(n.count, n.period*int64(time.Second/time.Microsecond)).Fits(uint64(n.maxBurst) + 1 + debt):
		return fmt.Sprintf("max_burst %d cannot be counted exactly at %d per %d seconds; give a smaller burst, or a count and a period that share more factors", n.maxBurst, n.count, n.period)
	}
	return ""
}

// debt is the least debt that a bucket can have. Nothing settles a charge of CL.THROTTLE.
const debt = 1

// limit makes the limit with these numbers. All limits have the same name and algorithm: stores keep one state for
// each key, and convert it when the numbers change.
func (n numbers) limit() (l *sluice.Limit, problem string) {
	if problem := n.problem(); problem != "" {
		return nil, problem
	}
	l, err := sluice.NewLimit(ThrottleName, sluice.TokenBucket{
		Rate: sluice.Per(n.count, time.Duration(n.period)*time.Second), Burst: n.maxBurst + 1, Debt: debt,
	})
	if err != nil {
		return nil, err.Error() // problem finds all of them
	}
	return l, ""
}

// throttle is a limit of CL.THROTTLE that is in use.
type throttle struct {
	numbers numbers
	limit   *sluice.Limit
	caller  string       // the first that gave the numbers
	used    atomic.Int64 // when it was used last, in seconds
	gone    atomic.Bool
}

// mostThrottles bounds the numbers that are in use at once, of which a client uses as many as are free. Stores keep a
// record of each limit as long as a state refers to it.
const mostThrottles = 1 << 14

// throttles are the limits of CL.THROTTLE. A limit is dropped only when no state under its numbers can differ from a
// fresh state. So the store never has two limits with the same numbers, whatever numbers clients choose. It is safe for
// concurrent use.
type throttles struct {
	mu    sync.RWMutex
	room  *share.Room
	known map[numbers]*throttle
	swept int64 // when it was last searched for unused limits
}

func newThrottles(most int) *throttles {
	return &throttles{room: share.NewRoom(most), known: map[numbers]*throttle{}}
}

// tooMany is the problem of further numbers while too many are in use.
var tooMany = fmt.Sprintf("of %d combinations of numbers, this client uses as many as are free, or more; use fewer of them, or try again when budgets are full again", mostThrottles)

// find returns the limit with these numbers, or why there is none. The argument recent is a limit that the caller has
// used before, nil for none, from the client's address, and now the time in seconds.
func (t *throttles) find(n numbers, recent *throttle, from net.Addr, now int64) (found *throttle, problem string) {
	if recent == nil || recent.numbers != n || recent.gone.Load() {
		t.mu.RLock()
		recent = t.known[n]
		t.mu.RUnlock()
	}
	if recent == nil {
		return t.add(n, share.Peer(from.String()), now)
	}
	if recent.used.Load() != now {
		recent.used.Store(now)
	}
	return recent, ""
}

// add makes a limit, if there is room for it.
func (t *throttles) add(n numbers, caller string, now int64) (added *throttle, problem string) {
	l, problem := n.limit()
	if problem != "" {
		return nil, problem
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.known[n]; known != nil {
		return known, ""
	}
	if !t.room.IsFree(caller) {
		t.sweep(now)
	}
	if !t.room.IsFree(caller) {
		return nil, tooMany
	}
	made := &throttle{numbers: n, limit: l, caller: caller}
	t.room.Take(caller, 1)
	made.used.Store(now)
	t.known[n] = made
	return made, ""
}

// sweep drops the limits whose states have become fresh, at most once a second.
func (t *throttles) sweep(now int64) {
	if now == t.swept {
		return
	}
	t.swept = now
	for n, known := range t.known {
		// A second because times are whole seconds, and one more for a decision under way.
		if full := int64(known.limit.TimeToFull()/time.Second) + 2; now-known.used.Load() > full {
			known.gone.Store(true)
			delete(t.known, n)
			t.room.Take(known.caller, -1)
		}
	}
}
