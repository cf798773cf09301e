package live

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

const (
	// mostRings bounds the rules with a history. A ring has less than 64 KiB, so that all take up to 16 MiB.
	mostRings = 256
	// idle is how long a rule gets no request before its ring may go to another rule.
	idle = time.Hour
)

// History keeps the outcomes of rules: an hour by 10 seconds, and a day by minutes. It reads the counters of the
// metrics from time to time, so that decisions do no work for it. Make it with NewHistory, and call Run. All methods
// are safe for concurrent use.
type History struct {
	read  func(visit func(rule string, t *telemetry.Totals))
	start time.Time

	mu     sync.Mutex
	before time.Duration // when the counters were read last, since start
	last   map[string]telemetry.Totals
	rings  map[string]*ring
	clock  clock
	full   bool // this sample found no ring that can be taken
}

// NewHistory returns an empty history of counters. The function read visits the counters of each rule.
func NewHistory(read func(visit func(rule string, t *telemetry.Totals)), now time.Time) *History {
	return &History{read: read, start: now, last: map[string]telemetry.Totals{}, rings: map[string]*ring{}}
}

// Run reads the counters until the context ends.
func (h *History) Run(ctx context.Context) {
	tick := time.NewTicker(ringTimes[Hour].step)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			h.Sample(now)
		}
	}
}

// Sample adds what was counted since the last call.
func (h *History) Sample(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock.compare(now.Sub(h.start), now.Round(0).Sub(h.start.Round(0)))
	// The clock of the machine may be set; this time only grows.
	at := max(now.Sub(h.start), h.before)
	middle := (h.before + at) / 2
	last := h.last
	h.last, h.full = make(map[string]telemetry.Totals, len(last)), false
	h.read(func(rule string, t *telemetry.Totals) {
		h.last[rule] = *t
		counted, before := *t, last[rule]
		for i, n := range before {
			if n <= t[i] { // otherwise the rule was gone, and its counters began again
				counted[i] -= n
			}
		}
		if counted != (telemetry.Totals{}) {
			h.ring(rule, middle).add(middle, &counted)
		}
	})
	h.before = at
	maps.DeleteFunc(h.rings, func(rule string, _ *ring) bool {
		_, there := h.last[rule]
		return !there
	})
}

// ring returns the ring of a rule; nil if all rings have rules that got requests lately.
func (h *History) ring(rule string, now time.Duration) *ring {
	r := h.rings[rule]
	if r != nil || h.full {
		return r
	}
	if len(h.rings) == mostRings {
		oldest, since := "", now-idle
		for name, r := range h.rings {
			if r.last < since {
				oldest, since = name, r.last
			}
		}
		if h.full = oldest == ""; h.full {
			return nil
		}
		delete(h.rings, oldest)
	}
	r = new(ring)
	h.rings[rule] = r
	return r
}

// Series are the outcomes of a rule in steps of equal length, the oldest first. The last step may still grow.
type Series struct {
	// End is the end of the last step, and Step the length of all.
	End  time.Time
	Step time.Duration
	// Steps have the requests of each step by outcome, in the order of telemetry.FigureNames.
	Steps [][telemetry.Figures]uint32
}

// Of returns the series of a rule in a span. An empty rule means the sum of all rules that have a history. The result known
// reports whether the rule has a history: a rule without requests has none, and neither has a rule that is one too many.
func (h *History) Of(rule string, s Span, now time.Time) (series Series, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := max(now.Sub(h.start), h.before)
	times := ringTimes[s]
	last := at / times.step
	n := min(times.steps, int(last)+1)
	series = Series{
		End:   now.Add(times.step - at%times.step),
		Step:  times.step,
		Steps: make([][telemetry.Figures]uint32, n),
	}
	for name, r := range h.rings {
		if rule == "" || rule == name {
			known = true
			r.read(s, last, series.Steps)
		}
	}
	return series, known
}

// ClockSetBack returns how often the clock of the machine was set back by more than a second.
func (h *History) ClockSetBack() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock.setBack
}

// clock compares the clock of the machine with one that nobody sets.
type clock struct {
	steady, wall time.Duration // since the start
	setBack      uint64
}

// compare notes what both clocks show.
func (c *clock) compare(steady, wall time.Duration) {
	if (steady-c.steady)-(wall-c.wall) > time.Second {
		c.setBack++
	}
	c.steady, c.wall = steady, wall
}
