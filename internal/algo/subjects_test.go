package algo_test

import (
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/oracle"
)

// subject is the random numbers of an algorithm, its oracle, and what a schedule may contain.
type subject func(c *chooser) (algo.Params, oracle.State, plan)

// subjects are all algorithms, with random numbers.
var subjects = map[string]subject{
	"token bucket":    bucket,
	"warm bucket":     warmBucket,
	"leaky bucket":    leaky,
	"fixed window":    fixedWindow,
	"sliding window":  slidingWindow,
	"sliding counter": slidingCounter,
	"sliding log":     slidingLog,
	"concurrency":     concurrency,
}

// TestEveryKindIsASubject: the laws test the algorithms of subjects, so no kind may be missing there.
func TestEveryKindIsASubject(t *testing.T) {
	found := map[algo.Kind]bool{}
	for _, s := range subjects {
		p, _, _ := s(&chooser{})
		found[p.Kind] = true
	}
	for k := algo.KindBucket; k < algo.KindEnd; k++ {
		if !found[k] {
			t.Errorf("kind %d is not among the subjects; add a row to subjects, with its oracle", k)
		}
	}
}

// rateNumbers makes up a rate: a small one, so that requests often compete, or one that must be accepted.
func rateNumbers(c *chooser) (count, period int64) {
	const day = 86_400_000_000
	switch c.below(14) {
	case 0:
		return 1 << 30, day // 1 GiB/d
	case 1:
		return 100 << 30, 30 * day // 100 GiB/30d
	case 2:
		return 1_000_000, day
	case 3:
		return 123_457, day
	case 4:
		return 1, 30 * day
	case 5:
		return 100_000_000, 1_000_000
	case 6:
		return 1 + c.below(1000), 60_000_000
	default:
		return 1 + c.below(12), 1 + c.below(60)
	}
}

// bucketNumbers makes the numbers of a token bucket.
func bucketNumbers(c *chooser) (count, period, burst, debt int64) {
	count, period = rateNumbers(c)
	burst = c.one(1, 2, count, 1+c.below(count), 1+c.below(20))
	debt = c.one(1, burst, 2*burst)
	for !algo.NewPace(count, period).Fits(uint64(burst + debt)) {
		burst, debt = max(burst/2, 1), max(debt/2, 1)
	}
	return count, period, burst, debt
}

func newBucket(count, period, burst, debt int64) algo.Params {
	return algo.Params{
		Kind: algo.KindBucket, Capacity: burst,
		Bucket: algo.NewBucket(algo.NewPace(count, period), period, burst, debt),
	}
}

func bucket(c *chooser) (algo.Params, oracle.State, plan) {
	count, period, burst, debt := bucketNumbers(c)
	o := oracle.NewBucket(count, period, burst, debt)
	return newBucket(count, period, burst, debt), o, plan{
		pace: pace{max(1, period/count), o.Period()}, capacity: burst,
		floors: true, waits: true, ends: true, debits: true, overdraws: true, back: 5 * o.Period(),
	}
}

func warmBucket(c *chooser) (algo.Params, oracle.State, plan) {
	count, period := rateNumbers(c)
	p := algo.NewPace(count, period)
	burst := c.one(1, 2, count, 1+c.below(20))
	warm := c.one(1000, 4_000_000, 1+c.below(100), 1+c.below(20*period/count+1))
	cold := c.one(2, 3, 10, 2+c.below(99))
	for !p.Fits(uint64(4 * burst)) {
		burst = max(burst/2, 1)
	}
	for !algo.WarmFits(p, warm, cold) {
		warm = max(warm/2, 1)
	}
	debt := burst
	o := oracle.NewWarmBucket(count, period, burst, debt, warm, cold)
	return algo.Params{
			Kind: algo.KindWarmBucket, Capacity: burst,
			Warm: algo.NewWarmBucket(p, period, burst, debt, warm, cold),
		}, o, plan{
			pace: pace{max(1, period/count), o.Period()}, capacity: burst,
			floors: true, waits: true, ends: true, debits: true, overdraws: true, back: 5 * o.Period(),
		}
}

func leaky(c *chooser) (algo.Params, oracle.State, plan) {
	count, period := rateNumbers(c)
	queue := c.one(0, 1, c.below(10), c.below(count+1))
	undelayed := c.one(0, c.below(queue+1), queue)
	for !algo.NewPace(count, period).Fits(uint64(queue + 1)) {
		queue /= 2
	}
	undelayed = min(undelayed, queue)
	o := oracle.NewLeaky(count, period, queue, undelayed)
	p := algo.Params{
		Kind: algo.KindLeaky, Capacity: queue + 1,
		Leaky: algo.NewLeakyBucket(algo.NewPace(count, period), period, queue, undelayed),
	}
	return p, o, plan{
		pace: pace{max(1, period/count), o.Period()}, capacity: queue + 1,
		floors: true, waits: true, ends: true, back: 5 * o.Period(),
	}
}

// windowed bounds the schedules of the windows and logs.
func windowed(unit, period, capacity int64) plan {
	return plan{
		pace: pace{max(1, unit), period}, capacity: capacity,
		floors: true, waits: true, ends: true, debits: true, overdraws: true, back: 5 * period,
	}
}

func fixedWindow(c *chooser) (algo.Params, oracle.State, plan) {
	count, period := rateNumbers(c)
	opened, denied := c.oneIn(2), c.oneIn(2)
	p := algo.Params{
		Kind: algo.KindFixedWindow, Capacity: count,
		Fixed: algo.FixedWindow{Count: count, Length: period, Opened: opened, CountDenied: denied},
	}
	return p, oracle.NewWindow(count, period, opened, denied), windowed(period/count, period, count)
}

func slidingWindow(c *chooser) (algo.Params, oracle.State, plan) {
	count, period := rateNumbers(c)
	cells := c.one(1, 2, 3, 10, 1+c.below(20), algo.MaxCells)
	if period < 1000 {
		period *= cells
	} else {
		for period%cells != 0 {
			cells--
		}
	}
	p, o, q := cellsOf(count, period, cells, c.oneIn(2))
	q.debits = c.oneIn(2)
	q.ends = !q.debits // a charge gives back less if its cell has reached the most that a state counts
	return p, o, q
}

func cellsOf(count, period, cells int64, denied bool) (algo.Params, oracle.State, plan) {
	p := algo.Params{
		Kind: algo.KindSlidingWindow, Capacity: count,
		Cells: algo.SlidingWindow{Count: count, Length: period, Cells: cells, CountDenied: denied},
	}
	return p, oracle.NewCells(count, period, cells, denied), windowed(period/cells, period, count)
}

func slidingCounter(c *chooser) (algo.Params, oracle.State, plan) {
	count, period := rateNumbers(c)
	if period < algo.MinCounterLength {
		period += algo.MinCounterLength
	}
	denied := c.oneIn(2)
	p := algo.Params{
		Kind: algo.KindSlidingCounter, Capacity: count,
		Counter: algo.SlidingCounter{Count: count, Length: period, CountDenied: denied},
	}
	return p, oracle.NewCounter(count, period, denied), windowed(period/count, period, count)
}

func slidingLog(c *chooser) (algo.Params, oracle.State, plan) {
	count, period := rateNumbers(c)
	count = min(count, 1+c.below(200))
	least := c.one(0, 0, c.below(period+1), min(period, period/count))
	denied := c.oneIn(2)
	p := algo.Params{
		Kind: algo.KindSlidingLog, Capacity: count,
		Log: algo.SlidingLog{Count: count, Length: period, MinInterval: least, CountDenied: denied},
	}
	q := windowed(period/count, period, count)
	// A log that counts what was denied drops the entries that decide nothing.
	q.debits = c.oneIn(2)
	q.ends = !denied && !q.debits
	return p, oracle.NewLog(count, period, least, denied), q
}

func concurrency(c *chooser) (algo.Params, oracle.State, plan) {
	most, queue, ttl, latency := 1+c.below(8), c.below(8), 1+c.below(100), c.below(30)
	p := algo.Params{
		Kind: algo.KindConcurrency, Capacity: most + queue,
		Conc: algo.Concurrency{Max: most, Queue: queue, TTL: ttl, Latency: latency},
	}
	// RetryAfter of a request that accepts a delay may be later than necessary while the latency that
	// releases have reported counts, so a schedule has either such requests or such releases.
	return p, oracle.NewLeases(most, queue, ttl, latency), plan{
		pace: pace{max(1, ttl/4), ttl}, capacity: most + queue,
		floors: true, waits: c.oneIn(2), ends: true, back: 5 * ttl, members: 12,
	}
}
