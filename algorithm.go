package sluice

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice/algo"
)

// Algorithm is one of TokenBucket, LeakyBucket, FixedWindow, SlidingWindow,
// SlidingCounter, SlidingLog and Concurrency.
type Algorithm interface {
	// String returns the algorithm's name and all its numbers.
	String() string
	// compile checks the numbers and computes those that stores use.
	compile(p *algo.Params) *LimitError
}

// TokenBucket lets bursts pass and bounds the rate: a bucket that starts full
// holds up to Burst tokens and is refilled at Rate; a request takes its cost or
// nothing. Over any interval W it admits at most burst + ⌊rate·W⌋ units.
type TokenBucket struct {
	Rate Rate
	// Burst is the size of the bucket. Default: the count of Rate.
	Burst int64
	// Debt is how many units a settlement may leave the bucket owing; what is
	// beyond is forgiven. Default: Burst.
	Debt int64
	// WarmUp, if positive, starts a limiter that was idle at a slower rate, and
	// ramps up to Rate within this time, after Guava's SmoothWarmingUp. It saves no
	// burst then: a request of up to Burst units passes as soon as its predecessors are paid for.
	WarmUp time.Duration
	// ColdFactor is how many times slower a cold limiter starts. Default: 3.
	ColdFactor int64
}

// LeakyBucket smooths: requests leave one at a time at Rate, and up to Queue
// wait their turn; the decision carries the delay. Over any interval W at most
// ⌊rate·W⌋ + 1 units depart, and the undelayed part on top.
type LeakyBucket struct {
	Rate Rate
	// Queue is how many units may wait. Zero refuses all that cannot leave at once.
	Queue int64
	// Undelayed is how many units of the queue pass without delay, as nginx's
	// delay=N; with Undelayed equal to Queue it is nginx's nodelay.
	Undelayed int64
}

// FixedWindow counts the units of one window after another, each of up to the
// count of Rate. An interval that straddles a boundary may see twice that.
type FixedWindow struct {
	Rate Rate
	// Opened lets a window begin with the first request after the last one ended;
	// otherwise windows begin at multiples of the period since the epoch (UTC).
	Opened bool
	// Calendar, if set, makes the windows days, weeks or months of a time zone;
	// the period of Rate is ignored.
	Calendar CalendarUnit
	// Zone is the time zone of Calendar. Default: UTC.
	Zone *time.Location
	// CountDenied counts denied attempts too: who asks for more than is left in a
	// window takes what is left. The next one begins with nothing counted.
	CountDenied bool
}

// CalendarUnit is a period of the calendar.
type CalendarUnit = algo.Unit

// The calendar's periods. Weeks begin on Monday.
const (
	CalendarDay   = algo.Day
	CalendarWeek  = algo.Week
	CalendarMonth = algo.Month
)

// SlidingWindow counts units in cells of a part of the period, and counts the
// cell that is leaving as a whole: no interval of one period ever sees more than the
// count of Rate. A steady caller gets count·N/(N+1) a period, or a little less.
type SlidingWindow struct {
	Rate Rate
	// Cells is N, the number of cells of a period, up to 256. Default: 10, or the
	// nearest larger number that divides the period.
	Cells int
	// CountDenied counts denied attempts too: who keeps hammering stays blocked.
	CountDenied bool
}

// SlidingCounter approximates a sliding window by two fixed ones, the earlier
// weighted and rounded up. An interval of one period may see 2·count − 1 units
// in the worst case. Its state is the smallest of all windows that slide.
type SlidingCounter struct {
	Rate Rate
	// CountDenied counts denied attempts too: who keeps hammering stays blocked. They
	// weigh in the next window as all do, so that many of them block for most of it.
	CountDenied bool
}

// SlidingLog remembers the time of each request: exact over every interval of a
// period. Its state grows with the count, which is at most 65,536.
type SlidingLog struct {
	Rate Rate
	// MinInterval is the least time between two requests, up to the period.
	MinInterval time.Duration
	// CountDenied logs denied attempts too: who keeps hammering stays blocked.
	CountDenied bool
}

// Concurrency bounds how many units are in flight at once.
type Concurrency struct {
	// Max is how many units may be in flight; Max + Queue is at most 65,536.
	Max int64
	// Queue is how many more may wait for one of them to end.
	Queue int64
	// TTL is how long a lease lasts unless it is released or renewed: what a
	// crashed holder costs. Default: one minute.
	TTL time.Duration
	// Latency is how long a request is taken to last when the delay of those in
	// the queue is estimated; it adapts to what releases report. Zero estimates no delay.
	Latency time.Duration
}

var (
	_ Algorithm = TokenBucket{}
	_ Algorithm = LeakyBucket{}
	_ Algorithm = FixedWindow{}
	_ Algorithm = SlidingWindow{}
	_ Algorithm = SlidingCounter{}
	_ Algorithm = SlidingLog{}
	_ Algorithm = Concurrency{}
)

// describe joins the name of an algorithm and those of its numbers that are set.
func describe(name string, numbers ...string) string {
	set := numbers[:0]
	for _, n := range numbers {
		if n != "" {
			set = append(set, n)
		}
	}
	return name + "(" + strings.Join(set, " ") + ")"
}

// number writes a number unless it is zero.
func number[T comparable](name string, v T) string {
	var zero T
	if v == zero {
		return ""
	}
	return fmt.Sprintf("%s=%v", name, v)
}

// starts writes when fixed windows begin, as a configuration file does.
func starts(opened bool) string {
	if !opened {
		return ""
	}
	return "starts=first_request"
}

func (t TokenBucket) String() string {
	return describe("token_bucket", t.Rate.String(), number("burst", t.Burst), number("debt", t.Debt),
		number("warm_up", t.WarmUp), number("cold_factor", t.ColdFactor))
}

func (b LeakyBucket) String() string {
	return describe("leaky_bucket", b.Rate.String(), number("queue", b.Queue), number("undelayed", b.Undelayed))
}

func (w FixedWindow) String() string {
	if w.Calendar != 0 {
		zone := w.Zone
		if zone == nil {
			zone = time.UTC
		}
		return describe("fixed_window", fmt.Sprintf("%d/%v", w.Rate.count, w.Calendar), "zone="+zone.String(), number("count_denied", w.CountDenied))
	}
	return describe("fixed_window", w.Rate.String(), starts(w.Opened), number("count_denied", w.CountDenied))
}

func (w SlidingWindow) String() string {
	return describe("sliding_window", w.Rate.String(), number("cells", w.Cells), number("count_denied", w.CountDenied))
}

func (c SlidingCounter) String() string {
	return describe("sliding_counter", c.Rate.String(), number("count_denied", c.CountDenied))
}

func (l SlidingLog) String() string {
	return describe("sliding_log", l.Rate.String(), number("min_interval", l.MinInterval), number("count_denied", l.CountDenied))
}

func (c Concurrency) String() string {
	return describe("concurrency", number("max", c.Max), number("queue", c.Queue), number("ttl", c.TTL), number("latency", c.Latency))
}
