package algo

// WarmBucket is a token bucket with a cold start, after Guava's SmoothWarmingUp. An idle limiter
// hands out units Cold times slower than the stable rate, and speeds up to the stable rate while
// it is used. After Warm microseconds without use it is cold again. It saves no burst. Each
// request of up to Burst units passes once the requests before it are paid for; the requests after
// it wait until it is paid for. Over any interval W it admits at most burst + ⌊rate·W⌋ units.
//
// Its state is three words: the time of the last charge, the ticks still to be paid, and the
// warmth gained. In warmth, one unit is 2·(1+Cold)·Den, and one idle microsecond loses
// (5+Cold)·Num. So both numbers of Guava's ramp are whole: the capacity is Warm·Num·(5+Cold), and
// the threshold is Warm·Num·(1+Cold).
type WarmBucket struct {
	Pace
	Burst, Debt int64
	Warm        int64
	Cold        int64

	burst, debt uint64 // Burst, Debt in ticks
	unit        uint64 // one unit in warmth
	most        uint64 // the stored units of a cold limiter, in warmth
	ramp        uint64 // the slow part of them, in warmth
	period      int64
}

// WarmWords is the size of a WarmBucket's state.
const WarmWords = 3

const (
	warmAt = iota
	warmOwed
	warmth
)

// NewWarmBucket makes a token bucket with a cold start. The caller has checked WarmFits, and that
// burst+debt units fit.
func NewWarmBucket(p Pace, period, burst, debt, warm, cold int64) WarmBucket {
	b := WarmBucket{
		Pace: p, Burst: burst, Debt: debt, Warm: warm, Cold: cold,
		burst: uint64(burst) * p.Den,
		debt:  uint64(debt) * p.Den,
		unit:  2 * uint64(1+cold) * p.Den,
		most:  uint64(warm) * p.Num * uint64(5+cold),
		ramp:  4 * uint64(warm) * p.Num,
	}
	b.period = max(period, p.wait(b.burst), warm)
	return b
}

// WarmFits reports whether this pace can exactly compute a ramp of warm microseconds that starts
// at cold times the stable interval.
func WarmFits(p Pace, warm, cold int64) bool {
	most, _ := mulDiv(uint64(warm), p.Num, 1)
	most, _ = mulDiv(most, uint64(16*(5+cold)), 1)
	unit, _ := mulDiv(p.Den, uint64(2*(1+cold)), 1)
	work, _ := mulDiv(most, uint64(cold), 1)
	return most < MaxTicks && unit < MaxTicks && work < MaxTicks
}

// Period returns how far time may go back before the clock counts as set back. It is the longest
// of the rate's period, the time that Burst units take, and the warm-up.
func (b *WarmBucket) Period() int64 { return b.period }

// settled returns the ticks owed and the warmth as of the request, the time from which to compute,
// and whether the clock was set back.
func (b *WarmBucket) settled(w []uint64, now int64) (owed, warm uint64, at int64, setBack bool) {
	passed, at, setBack := elapsed(int64(w[warmAt]), now, b.period)
	owed, warm = w[warmOwed], w[warmth]
	if setBack {
		return max(owed, b.burst), warm, at, true
	}
	free := b.wait(owed)
	if passed < free {
		return b.decay(owed, passed), warm, at, false
	}
	// The rest of the microsecond in which the debt ends already cools.
	spare := uint64(free)*b.Num - owed
	cooled, _ := mulDiv(uint64(passed-free), b.Num, 1)
	cooled, _ = mulDiv(min(cooled+spare, MaxTicks), uint64(5+b.Cold), 1)
	return 0, warm - min(warm, cooled), at, false
}

// price returns the ticks that cost units take from a limiter of this warmth, and the warmth
// after them.
func (b *WarmBucket) price(cost int64, warm uint64) (ticks, after uint64) {
	ticks = b.ticks(cost)
	gain, _ := mulDiv(uint64(cost), b.unit, 1)
	stored := b.most - warm
	after = warm + min(gain, stored)
	if warm >= b.ramp {
		return ticks, after
	}
	// The extra ticks are the area under the ramp: the mean extra interval over the slow part,
	// times the length of that part.
	slow := b.ramp - warm
	part := min(gain, slow)
	extra := mulDivUp(part*uint64(b.Cold-1), 2*slow-part, 16*uint64(1+b.Cold)*uint64(b.Warm)*b.Num)
	return ticks + extra, after
}

// Decide decides one request. With commit it updates the state, except after a denial, unless the request
// is a debit. Without commit it writes nothing.
func (b *WarmBucket) Decide(w []uint64, req Request, commit bool) Result {
	res := b.decide(w, &req, commit)
	if res.Allowed || !req.Debit || req.Cost == 0 {
		return res
	}
	owing := [WarmWords]uint64(w)
	if !commit {
		w = owing[:]
	}
	b.Settle(w, req.Now, Charge{}, req.Cost)
	return b.decide(w, &req, false)
}

func (b *WarmBucket) decide(w []uint64, req *Request, commit bool) Result {
	owed, warm, at, setBack := b.settled(w, req.Now)
	if setBack && commit {
		w[warmAt], w[warmOwed] = uint64(at), owed
	}
	res := Result{ResetAfter: b.idle(owed, warm) + (at - req.Now)}
	if owed == 0 {
		res.Remaining = max(0, b.Burst-req.Floor)
	}
	need := req.Cost
	if req.Overdraw && req.Cost <= MaxUnits && b.ticks(req.Cost) <= MaxTicks/2 {
		need = min(need, 1)
	}
	if need > b.Burst-req.Floor && need > 0 {
		res.Reason = Never
		return res
	}
	wait := b.wait(owed)
	if owed > 0 {
		wait += at - req.Now
	}
	if wait > max(req.MaxWait, 0) || owed > MaxTicks/2 {
		res.Reason = Limited
		res.RetryAfter = wait - max(req.MaxWait, 0)
		if owed > MaxTicks/2 {
			res.RetryAfter = max(res.RetryAfter, b.wait(owed-MaxTicks/2)+(at-req.Now))
		}
		return res
	}
	res.Allowed, res.Delay, res.At = true, wait, at
	if req.Cost == 0 {
		return res
	}
	ticks, after := b.price(req.Cost, warm)
	next := owed + ticks
	// The charge says when it acts, and what is owed one microsecond before that, its own ticks
	// included.
	wait = b.wait(owed)
	res.At, res.Over = at+wait, b.decay(next+b.Num, wait)
	res.Remaining = 0
	res.ResetAfter = b.idle(next, after) + (at - req.Now)
	if commit {
		w[warmAt], w[warmOwed], w[warmth] = uint64(at), next, after
	}
	return res
}

// idle returns how long a limiter must be idle until it is cold.
func (b *WarmBucket) idle(owed, warm uint64) int64 {
	cool := uint64(5 + b.Cold)
	return b.wait(owed + (warm+cool-1)/cool)
}

// Fresh reports whether nothing is owed and the limiter is cold.
func (b *WarmBucket) Fresh(w []uint64, now int64) bool {
	owed, warm, at, _ := b.settled(w, now)
	return at == now && owed == 0 && warm == 0
}

// Cancel gives back a reservation before it acts, if it is the last one. It shortens the wait of
// the next request, and takes back the warmth gained. If the limiter is fully warm, its earlier
// warmth is unknown. Then Cancel shortens the wait by the cost at the stable rate, and leaves the
// warmth.
func (b *WarmBucket) Cancel(w []uint64, now int64, c Charge) {
	owed, warm, at, setBack := b.settled(w, now)
	if c.Cost == 0 || setBack || at > c.At || owed == 0 || b.decay(owed+b.Num, c.At-at) != c.Over {
		return
	}
	gain, _ := mulDiv(uint64(c.Cost), b.unit, 1)
	before := warm - min(gain, warm)
	ticks, _ := b.price(c.Cost, before)
	if warm == b.most {
		before, ticks = warm, b.ticks(c.Cost)
	}
	w[warmAt], w[warmOwed], w[warmth] = uint64(at), owed-min(owed, ticks), before
}

// Settle replaces the cost of a charge by the actual cost, at the stable rate.
func (b *WarmBucket) Settle(w []uint64, now int64, c Charge, actual int64) {
	owed, warm, at, _ := b.settled(w, now)
	actual = min(actual, MaxUnits)
	if actual <= c.Cost {
		owed -= min(owed, b.ticks(c.Cost-actual))
	} else {
		ticks, after := b.price(actual-c.Cost, warm)
		if total := min(owed+ticks, b.burst+b.debt); total > owed {
			owed, warm = total, after
		}
	}
	w[warmAt], w[warmOwed], w[warmth] = uint64(at), owed, warm
}

// Convert rewrites from's state for these numbers. The debt lasts as long as before, and the
// warmth keeps its share of the capacity.
func (b *WarmBucket) Convert(from *WarmBucket, w []uint64, now int64) {
	owed, warm, at, _ := from.settled(w, now)
	owed = mulDivUp(owed, b.Num, from.Num)
	warm, _ = mulDiv(warm, b.most, from.most)
	w[warmAt], w[warmOwed], w[warmth] = uint64(at), owed, warm
}

// await corrects the times of a result that leaves from's state as it is: what is owed lasts as
// long under all numbers, and the limiter cools as before.
func (b *WarmBucket) await(from *WarmBucket, w []uint64, req *Request, res *Result) {
	owed, warm, at, _ := from.settled(w, req.Now)
	back := at - req.Now
	res.ResetAfter = from.idle(owed, warm) + back
	if res.Reason != Limited {
		return
	}
	res.RetryAfter = from.wait(owed) + back - max(req.MaxWait, 0)
	// More than this is never owed for another request.
	if most, _ := mulDiv(MaxTicks/2, from.Num, b.Num); owed > most {
		res.RetryAfter = max(res.RetryAfter, from.wait(owed-most)+back)
	}
}
