package sluice

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// Algorithm is one of TokenBucket, LeakyBucket, FixedWindow, SlidingWindow,
// SlidingCounter, SlidingLog and Concurrency.
// Its types are values, safe for concurrent use.
type Algorithm interface {
	// String returns the algorithm's name and numbers. Numbers that equal their default are
	// left out, so that two spellings of one algorithm have one text.
	String() string
	// complete returns the algorithm with the defaults filled in.
	complete() Algorithm
	// rate returns what Limit.Rate returns for a complete algorithm.
	rate() Rate
	// compile checks the numbers and computes the numbers that stores use.
	compile(p *algo.Params) *LimitError
}

// TokenBucket allows bursts and bounds the rate. A bucket starts full, holds up to Burst
// tokens and is refilled at Rate; a request takes its cost in tokens, or none. Over any
// interval W it admits at most burst + ⌊rate·W⌋ units.
type TokenBucket struct {
	// Rate is the rate at which the bucket is refilled. Required.
	Rate Rate
	// Burst is the size of the bucket. Default: the count of Rate.
	Burst int64
	// Debt is the most units that the bucket may owe after a settlement. Any larger debt is
	// forgiven. Default: Burst.
	Debt int64
	// WarmUp, if positive, starts an idle limiter at a slower rate, which rises to Rate
	// within this time, as Guava's SmoothWarmingUp does. The bucket saves no burst then: a
	// request of up to Burst units passes as soon as the requests before it are paid for.
	WarmUp time.Duration
	// ColdFactor is how many times slower a cold limiter starts. Default: 3.
	ColdFactor int64
}

// LeakyBucket smooths traffic: units leave one at a time at Rate. Up to Queue units wait; the
// decision has the delay. Over any interval W at most ⌊rate·W⌋ + 1 units depart, plus the
// Undelayed units.
type LeakyBucket struct {
	// Rate is the rate at which units leave. Required.
	Rate Rate
	// Queue is how many units may wait. With zero, a unit that cannot leave at once is denied. A request that waits is
	// allowed with a Delay, also by [Limiter.Allow], and its caller sleeps for the Delay before it acts.
	Queue int64
	// Undelayed is how many units of the queue pass without delay, as in nginx's
	// delay=N. With Undelayed equal to Queue it is nginx's nodelay.
	Undelayed int64
}

// FixedWindow counts the units of consecutive windows, and admits up to the count of Rate in each.
// An interval that straddles a boundary may see up to twice that count.
type FixedWindow struct {
	// Rate is the rate whose count each window admits, and whose period is the window. Required.
	Rate Rate
	// Opened begins a window with the first request after the last window ended.
	// Without it windows begin at multiples of the period since the epoch (UTC).
	Opened bool
	// Calendar, if set, makes the windows days, weeks or months of a time zone;
	// the period of Rate is ignored.
	Calendar CalendarUnit
	// Zone is the time zone of Calendar. Default: UTC.
	Zone *time.Location
	// CountDenied counts denied attempts too: a denied attempt uses up the rest of its
	// window. The next window begins with nothing counted.
	CountDenied bool
}

// CalendarUnit is a period of the calendar.
type CalendarUnit uint8

// The calendar's periods. Weeks begin on Monday.
const (
	CalendarDay   = CalendarUnit(algo.Day)
	CalendarWeek  = CalendarUnit(algo.Week)
	CalendarMonth = CalendarUnit(algo.Month)
)

var unitNames = [...]string{CalendarDay: "day", CalendarWeek: "week", CalendarMonth: "month"}

// String returns the unit's name.
func (u CalendarUnit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return "unknown"
}

// SlidingWindow counts units in cells, each a part of the period. The oldest cell counts as a
// whole until it has left. So no interval of one period ever sees more than the count of Rate. A
// steady client gets count·N/(N+1) units a period, or a little less.
type SlidingWindow struct {
	// Rate is the rate whose count an interval of its period admits. Required.
	Rate Rate
	// Cells is N, the number of cells of a period, up to 256. Default: 10, or the next larger
	// number that divides the period, or 1 if no number up to 256 does.
	Cells int
	// CountDenied counts denied attempts too: a client that keeps trying stays denied. See
	// docs/semantics.md#denied-attempts.
	CountDenied bool
}

// SlidingCounter approximates a sliding window by two fixed windows. The units of the earlier
// window are weighted and rounded up. An interval of one period may see 2·count − 1 units in the
// worst case. It has the smallest state of all sliding windows.
type SlidingCounter struct {
	// Rate is the rate whose count an interval of its period admits, up to the weighting. Required.
	Rate Rate
	// CountDenied counts denied attempts too: a client that keeps trying stays denied. Denied
	// attempts weigh in the next window like allowed ones: many of them block most of it.
	CountDenied bool
}

// SlidingLog remembers the time of each request: it is exact over every interval of one
// period. Its state grows with the count, which is at most 65,536.
type SlidingLog struct {
	// Rate is the rate whose count an interval of its period admits. Required.
	Rate Rate
	// MinInterval is the least time between two requests, up to the period.
	MinInterval time.Duration
	// CountDenied logs denied attempts too: a client that keeps trying stays denied.
	CountDenied bool
}

// Concurrency bounds how many units are in flight at once.
type Concurrency struct {
	// Max is how many units may be in flight; Max + Queue is at most 65,536.
	Max int64
	// Queue is how many more units may wait for units in flight to end.
	Queue int64
	// TTL is how long a lease lasts unless it is released or renewed. It bounds how long the lease
	// of a crashed client blocks others. Default: one minute.
	TTL time.Duration
	// Latency is the first estimate of how long a request lasts, from which the delay of requests
	// in the queue follows. The estimate adapts to the latencies that releases report. Default:
	// 100 ms with a Queue, none without.
	Latency time.Duration
}

// Defaults of the algorithms.
const (
	defaultColdFactor = 3
	defaultCells      = 10
	defaultTTL        = time.Minute
	defaultLatency    = 100 * time.Millisecond
)

func (t TokenBucket) complete() Algorithm {
	if t.Burst == 0 {
		t.Burst = t.defaultBurst()
	}
	if t.Debt == 0 {
		t.Debt = t.defaultDebt()
	}
	if t.ColdFactor == 0 && t.WarmUp > 0 {
		t.ColdFactor = defaultColdFactor
	}
	return t
}

func (t TokenBucket) defaultBurst() int64 { return min(t.Rate.count, algo.MaxUnits-1) }

// defaultDebt returns the default debt of a bucket that has its Burst.
func (t TokenBucket) defaultDebt() int64 { return min(t.Burst, algo.MaxUnits-t.Burst) }

func (b LeakyBucket) complete() Algorithm { return b }

func (w FixedWindow) complete() Algorithm {
	if w.Calendar != 0 {
		w.Rate.period = lengthOf(w.Calendar)
		if w.Zone == nil {
			w.Zone = time.UTC
		}
	}
	return w
}

// lengthOf returns the usual length of a calendar's period: 30 days for a month.
func lengthOf(u CalendarUnit) time.Duration {
	switch u {
	case CalendarDay:
		return day
	case CalendarWeek:
		return week
	default:
		return 30 * day
	}
}

func (w SlidingWindow) complete() Algorithm {
	if w.Cells == 0 {
		w.Cells = w.defaultCells()
	}
	return w
}

func (w SlidingWindow) defaultCells() int {
	for cells := defaultCells; cells <= algo.MaxCells; cells++ {
		if w.Rate.micros()%int64(cells) == 0 {
			return cells
		}
	}
	return 1
}

func (c SlidingCounter) complete() Algorithm { return c }

func (l SlidingLog) complete() Algorithm { return l }

func (c Concurrency) complete() Algorithm {
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.Latency == 0 {
		c.Latency = c.defaultLatency()
	}
	return c
}

// defaultLatency returns a latency that gives requests in a queue an estimated delay. With a
// latency of zero, their delay would be zero.
func (c Concurrency) defaultLatency() time.Duration {
	if c.Queue == 0 {
		return 0
	}
	return defaultLatency
}

func (t TokenBucket) rate() Rate    { return t.Rate }
func (b LeakyBucket) rate() Rate    { return b.Rate }
func (w FixedWindow) rate() Rate    { return w.Rate }
func (w SlidingWindow) rate() Rate  { return w.Rate }
func (c SlidingCounter) rate() Rate { return c.Rate }
func (l SlidingLog) rate() Rate     { return l.Rate }
func (c Concurrency) rate() Rate    { return Rate{} }

// describe joins the name of an algorithm and its numbers, without the empty ones.
func describe(name string, numbers ...string) string {
	set := numbers[:0]
	for _, n := range numbers {
		if n != "" {
			set = append(set, n)
		}
	}
	return name + "(" + strings.Join(set, " ") + ")"
}

// number writes a number, unless it is zero or the default.
func number[T comparable](name string, v, byDefault T) string {
	var zero T
	if v == zero || v == byDefault {
		return ""
	}
	return fmt.Sprintf("%s=%v", name, v)
}

// starts writes when fixed windows begin, in the words of a configuration file.
func starts(opened bool) string {
	if !opened {
		return ""
	}
	return "starts=first_request"
}

func flag(name string, set bool) string { return number(name, set, false) }

func (t TokenBucket) String() string {
	c := t.complete().(TokenBucket)
	return describe("token_bucket", t.Rate.String(), number("burst", t.Burst, c.defaultBurst()), number("debt", t.Debt, c.defaultDebt()),
		number("warm_up", t.WarmUp, 0), number("cold_factor", t.ColdFactor, defaultColdFactor))
}

func (b LeakyBucket) String() string {
	return describe("leaky_bucket", b.Rate.String(), number("queue", b.Queue, 0), number("undelayed", b.Undelayed, 0))
}

func (w FixedWindow) String() string {
	if w.Calendar != 0 {
		zone := w.complete().(FixedWindow).Zone
		return describe("fixed_window", fmt.Sprintf("%d/%v", w.Rate.count, w.Calendar), "zone="+zone.String(), flag("count_denied", w.CountDenied))
	}
	return describe("fixed_window", w.Rate.String(), starts(w.Opened), flag("count_denied", w.CountDenied))
}

func (w SlidingWindow) String() string {
	return describe("sliding_window", w.Rate.String(), number("cells", w.Cells, w.defaultCells()), flag("count_denied", w.CountDenied))
}

func (c SlidingCounter) String() string {
	return describe("sliding_counter", c.Rate.String(), flag("count_denied", c.CountDenied))
}

func (l SlidingLog) String() string {
	return describe("sliding_log", l.Rate.String(), number("min_interval", l.MinInterval, 0), flag("count_denied", l.CountDenied))
}

func (c Concurrency) String() string {
	return describe("concurrency", number("max", c.Max, 0), number("queue", c.Queue, 0), number("ttl", c.TTL, defaultTTL),
		number("latency", c.Latency, c.defaultLatency()))
}
