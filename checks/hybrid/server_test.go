package hybrid

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// A sample is a moment of the server's clock.
type sample struct {
	before, after int64 // on the clock of the fleet, in nanoseconds
	server        int64 // nanoseconds since the Unix epoch
}

// serverTime shows when, on the server's clock, something happened.
type serverTime interface {
	of(spends []fleet.Spend) []fleet.Spend
}

// steady is a server's clock that runs as the clock of the fleet does.
type steady struct{ ahead, error int64 }

// clockOf measures the clock of a server. It must run right.
func (c *crew) clockOf(s *redistest.Server) steady {
	c.Helper()
	conn, err := s.Dial(c.Context())
	c.must(err)
	defer conn.Close()
	best := steady{error: math.MaxInt64}
	for range 50 {
		one, err := take(c.T, c.clock, conn)
		c.must(err)
		if e := (one.after-one.before)/2 + 1000; e < best.error {
			best = steady{one.server - (one.before+one.after)/2, e}
		}
	}
	return best
}

func (s steady) of(spends []fleet.Spend) []fleet.Spend {
	shown := make([]fleet.Spend, len(spends))
	for i, spend := range spends {
		spend.From += s.ahead - s.error
		spend.To += s.ahead + s.error
		shown[i] = spend
	}
	return shown
}

func take(t *testing.T, clock fleet.Clock, conn *redistest.Conn) (sample, error) {
	t.Helper()
	one := sample{before: clock.Now()}
	v, err := conn.Do(t.Context(), "TIME")
	if err != nil {
		return one, err
	}
	one.after = clock.Now()
	parts, _ := v.([]any)
	if len(parts) != 2 {
		return one, fmt.Errorf("the time is %v", v)
	}
	seconds, err := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
	if err != nil {
		return one, err
	}
	micros, err := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
	one.server = seconds*1e9 + micros*1000
	return one, err
}

// watched is a server's clock that may jump and drift: it is read all the time. Where the clock goes back,
// the time stays what it was.
type watched struct {
	stop  chan struct{}
	ended sync.WaitGroup
	all   []sample
	err   error
}

// watch begins to read a server's clock.
func (c *crew) watch(s *redistest.Server) *watched {
	c.Helper()
	conn, err := s.Dial(c.Context())
	c.must(err)
	w := &watched{stop: make(chan struct{})}
	w.ended.Go(func() {
		defer conn.Close()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		latest := int64(0)
		for {
			one, err := take(c.T, c.clock, conn)
			if err != nil {
				w.err = err
				return
			}
			latest = max(latest, one.server)
			one.server = latest
			w.all = append(w.all, one)
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

// end ends the watch.
func (w *watched) end() error {
	close(w.stop)
	w.ended.Wait()
	return w.err
}

func (w *watched) of(spends []fleet.Spend) []fleet.Spend {
	shown := make([]fleet.Spend, len(spends))
	for i, s := range spends {
		before := sort.Search(len(w.all), func(i int) bool { return w.all[i].after > s.From }) - 1
		after := sort.Search(len(w.all), func(i int) bool { return w.all[i].before >= s.To })
		s.From = w.all[max(before, 0)].server
		s.To = w.all[min(after, len(w.all)-1)].server
		shown[i] = s
	}
	return shown
}
