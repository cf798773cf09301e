package algo

import "math"

// Kind names an algorithm.
type Kind uint8

// The algorithms.
const (
	KindBucket Kind = iota + 1
	KindWarmBucket
	KindLeaky
	KindFixedWindow
	KindSlidingWindow
	KindSlidingCounter
	KindSlidingLog
	KindConcurrency

	kindEnd // the number after the last algorithm, for tests that go through all
)

// Params are the numbers of one limit, ready to compute with. Kind names the algorithm; the fields
// of the other algorithms are unused.
type Params struct {
	Kind Kind
	// Capacity is the most units that the limit can give at once.
	Capacity int64

	Bucket  Bucket
	Leaky   LeakyBucket
	Fixed   FixedWindow
	Counter SlidingCounter
	Warm    WarmBucket
	Cells   SlidingWindow
	Log     SlidingLog
	Conc    Concurrency
}

// CountsDenied reports whether denied attempts are counted: a denial changes the state then.
func (p *Params) CountsDenied() bool {
	switch p.Kind {
	case KindFixedWindow:
		return p.Fixed.CountDenied
	case KindSlidingWindow:
		return p.Cells.CountDenied
	case KindSlidingCounter:
		return p.Counter.CountDenied
	case KindSlidingLog:
		return p.Log.CountDenied
	default:
		return false
	}
}

// TakesDebits reports whether a state of this kind can count more units than the limit has.
func (p *Params) TakesDebits() bool { return p.Kind != KindLeaky && p.Kind != KindConcurrency }

// Inline reports whether the state of this kind is a State. The states of the other kinds are
// slices of words.
func (p *Params) Inline() bool {
	switch p.Kind {
	case KindBucket, KindLeaky, KindFixedWindow, KindSlidingCounter:
		return true
	default:
		return false
	}
}

// DecideState decides one request from a state of an inline kind. It does what Decide of that kind
// does, without copying large values.
func (p *Params) DecideState(s State, req *Request, res *Result) State {
	switch p.Kind {
	case KindBucket:
		return p.Bucket.decide(s, req, res)
	case KindLeaky:
		return p.Leaky.decide(s, req, res)
	case KindFixedWindow:
		return p.Fixed.decide(s, req, res)
	default:
		return p.Counter.decide(s, req, res)
	}
}

// DecideWords decides one request from the state of a kind that is not inline. The state has room
// for what the decision adds.
func (p *Params) DecideWords(w []uint64, req Request, commit bool) Result {
	switch p.Kind {
	case KindWarmBucket:
		return p.Warm.Decide(w, req, commit)
	case KindSlidingWindow:
		return p.Cells.Decide(w, req, commit)
	case KindSlidingLog:
		return p.Log.Decide(w, req, commit)
	default:
		return p.Conc.Decide(w, req, commit)
	}
}

// Evaluate decides one request and changes no state. s is the state of an inline kind, w the
// state of another kind.
func (p *Params) Evaluate(s State, w []uint64, req *Request, res *Result) {
	if p.Inline() {
		p.DecideState(s, req, res)
	} else {
		*res = p.DecideWords(w, *req, false)
	}
}

// Peek is Evaluate for a request that takes nothing: Remaining is what could be taken now, and
// ResetAfter is of the state as it is, as if the request had no cost.
func (p *Params) Peek(s State, w []uint64, req *Request, res *Result) {
	p.Evaluate(s, w, req, res)
	if !res.Allowed || req.Cost == 0 {
		return
	}
	none := Request{Now: req.Now, Floor: req.Floor, MaxWait: req.MaxWait}
	var left Result
	p.Evaluate(s, w, &none, &left)
	res.Remaining, res.ResetAfter = left.Remaining, left.ResetAfter
}

// FreshState reports whether a state of an inline kind equals a fresh one.
func (p *Params) FreshState(s State, now int64) bool {
	switch p.Kind {
	case KindBucket:
		return p.Bucket.Fresh(s, now)
	case KindLeaky:
		return p.Leaky.Fresh(s, now)
	case KindFixedWindow:
		return p.Fixed.Fresh(s, now)
	default:
		return p.Counter.Fresh(s, now)
	}
}

// FreshWords reports whether the state of a kind that is not inline equals a fresh one.
func (p *Params) FreshWords(w []uint64, now int64) bool {
	switch p.Kind {
	case KindWarmBucket:
		return p.Warm.Fresh(w, now)
	case KindSlidingWindow:
		return p.Cells.Fresh(w, now)
	case KindSlidingLog:
		return p.Log.Fresh(w, now)
	default:
		return p.Conc.Fresh(w, now)
	}
}

// ConvertState converts the state s from the numbers from to the numbers p. Both are of the same
// inline kind.
func (p *Params) ConvertState(from *Params, s State, now int64) State {
	switch p.Kind {
	case KindBucket:
		return p.Bucket.Convert(&from.Bucket, s, now)
	case KindLeaky:
		return p.Leaky.Convert(&from.Leaky, s, now)
	case KindFixedWindow:
		return p.Fixed.Convert(&from.Fixed, s, now)
	default:
		return p.Counter.Convert(&from.Counter, s, now)
	}
}

// MovesState reports whether a denial under p changes a state that was written under the numbers
// from. Usually it does not: the state stays as it is. If the clock was set back by more than a
// period of either numbers, the state moves to the new time. If denied attempts count and the
// conversion loses no times, it counts this one.
func (p *Params) MovesState(from *Params, s State, now int64) bool {
	switch p.Kind {
	case KindBucket:
		return s.T-now > min(from.Bucket.period, p.Bucket.period)
	case KindLeaky:
		return s.T-now > min(from.Leaky.period, p.Leaky.period)
	case KindFixedWindow:
		w := &p.Fixed
		return from.Fixed.setBack(s, now) || w.setBack(w.Convert(&from.Fixed, s, now), now) ||
			w.CountDenied && w.alike(&from.Fixed)
	default:
		c := &p.Counter
		return from.Counter.setBack(s, now) || c.setBack(c.Convert(&from.Counter, s, now), now) ||
			c.CountDenied && c.Length == from.Counter.Length
	}
}

// MovesWords is like MovesState. The kind must not be inline.
func (p *Params) MovesWords(from *Params, w []uint64, now int64) bool {
	switch p.Kind {
	case KindWarmBucket:
		return int64(w[warmAt])-now > min(from.Warm.period, p.Warm.period)
	case KindSlidingWindow:
		return from.Cells.setBack(w, now) || p.Cells.setBackBy(&from.Cells, w, now) ||
			p.Cells.CountDenied && p.Cells.alike(&from.Cells)
	case KindSlidingLog:
		return from.Log.setBack(w, now) || p.Log.setBack(w, now) || p.Log.CountDenied && p.Log.holds(&from.Log)
	default:
		return from.Conc.jump(w, now)+p.Conc.jump(w, now) > 0
	}
}

// AwaitState corrects the waits of a result. The state s is kept under the numbers from, and p has
// computed the result from the converted state without writing it. AwaitState sets when the request
// is admitted, if nothing is written until then, and when the state equals a fresh one.
func (p *Params) AwaitState(from *Params, s State, req *Request, res *Result) {
	switch p.Kind {
	case KindBucket:
		p.Bucket.await(&from.Bucket, s, req, res)
	case KindLeaky:
		p.Leaky.await(&from.Leaky, s, req, res)
	case KindFixedWindow:
		p.Fixed.await(&from.Fixed, s, req, res)
	default:
		p.Counter.await(&from.Counter, s, req, res)
	}
}

// AwaitWords is like AwaitState. The kind must not be inline.
func (p *Params) AwaitWords(from *Params, w []uint64, req *Request, res *Result) {
	switch p.Kind {
	case KindWarmBucket:
		p.Warm.await(&from.Warm, w, req, res)
	case KindSlidingWindow:
		p.Cells.await(&from.Cells, w, req, res)
	case KindSlidingLog:
		p.Log.await(&from.Log, w, req, res)
	}
}

// ConvertWords converts the state old from the numbers from to the numbers p of the same kind, and
// writes it into w. The slice w is all zeros and no shorter than old.
func (p *Params) ConvertWords(from *Params, w, old []uint64, now int64) {
	switch p.Kind {
	case KindWarmBucket:
		copy(w, old[:WarmWords])
		p.Warm.Convert(&from.Warm, w, now)
	case KindSlidingWindow:
		p.Cells.Convert(&from.Cells, w, old, now)
	case KindSlidingLog:
		p.Log.Convert(&from.Log, w, old, now)
	default:
		p.Conc.Convert(&from.Conc, w, old, now)
	}
}

// Words returns the smallest and the largest size of a state, in words. The kind must not be inline.
func (p *Params) Words() (least, most int) {
	switch p.Kind {
	case KindWarmBucket:
		return WarmWords, WarmWords
	case KindSlidingWindow:
		return p.Cells.Words(), p.Cells.Words()
	case KindSlidingLog:
		return p.Log.Words(min(p.Log.Entries(), 7)), p.Log.Words(p.Log.Entries())
	default:
		return p.Conc.Words(min(p.Conc.Leases(), 4)), p.Conc.Words(p.Conc.Leases())
	}
}

// FullWords reports whether a state has no room for another charge.
func (p *Params) FullWords(w []uint64, now int64) bool {
	switch p.Kind {
	case KindSlidingLog:
		return p.Log.Full(w, now)
	case KindConcurrency:
		return p.Conc.Full(w, now)
	default:
		return false
	}
}

// MoveWords copies a state into a larger slice of zeros.
func (p *Params) MoveWords(dst, src []uint64) {
	switch p.Kind {
	case KindSlidingLog:
		p.Log.Move(dst, src)
	case KindConcurrency:
		p.Conc.Move(dst, src)
	default:
		copy(dst, src)
	}
}

// ConvertCharge converts the ticks of a charge under the numbers from to the ticks of the numbers p.
func (p *Params) ConvertCharge(from *Params, c Charge, now int64) Charge {
	switch p.Kind {
	case KindBucket:
		return p.Bucket.ConvertCharge(&from.Bucket, c, now)
	case KindLeaky:
		return p.Leaky.ConvertCharge(&from.Leaky, c)
	default:
		return c
	}
}

// SettleState replaces the cost of a charge in a state of an inline kind.
func (p *Params) SettleState(s State, now int64, c Charge, actual int64) State {
	switch p.Kind {
	case KindBucket:
		return p.Bucket.Settle(s, now, c, actual)
	case KindLeaky:
		return p.Leaky.Settle(s, now, c, actual)
	case KindFixedWindow:
		return p.Fixed.Settle(s, now, c, actual)
	default:
		return p.Counter.Settle(s, now, c, actual)
	}
}

// Acts returns the moment at which the owner of a charge acts. It is the latest moment at which Cancel gives the charge
// back. A lease can be given back at any time, and so can a charge without cost.
func (p *Params) Acts(c Charge) int64 {
	switch {
	case c.Cost == 0 || p.Kind == KindConcurrency:
		return math.MaxInt64
	case p.Kind == KindBucket:
		return c.At + p.Bucket.wait(c.Over)
	case p.Kind == KindLeaky:
		return c.At + p.Leaky.wait(p.Leaky.leaves(c))
	default:
		return c.At // a warm bucket's At is this moment, and the others have no queue
	}
}

// CancelState gives a charge back in a state of an inline kind.
func (p *Params) CancelState(s State, now int64, c Charge) State {
	switch p.Kind {
	case KindBucket:
		return p.Bucket.Cancel(s, now, c)
	case KindLeaky:
		return p.Leaky.Cancel(s, now, c)
	case KindFixedWindow:
		return p.Fixed.Cancel(s, now, c)
	default:
		return p.Counter.Cancel(s, now, c)
	}
}

// SettleWords replaces the cost of a charge in a state that is not inline. A lease cannot be
// settled.
func (p *Params) SettleWords(w []uint64, now int64, c Charge, actual int64) {
	switch p.Kind {
	case KindWarmBucket:
		p.Warm.Settle(w, now, c, actual)
	case KindSlidingWindow:
		p.Cells.Settle(w, now, c, actual)
	case KindSlidingLog:
		p.Log.Settle(w, now, c, actual)
	}
}

// CancelWords gives a charge back in a state that is not inline; a lease is released.
func (p *Params) CancelWords(w []uint64, now int64, c Charge) {
	switch p.Kind {
	case KindWarmBucket:
		p.Warm.Cancel(w, now, c)
	case KindSlidingWindow:
		p.Cells.Cancel(w, now, c)
	case KindSlidingLog:
		p.Log.Cancel(w, now, c)
	case KindConcurrency:
		if c.Cost > 0 { // a request without cost holds no lease
			p.Conc.Release(w, now, c.Member, -1)
		}
	}
}

// LatestState returns the latest time in a state of an inline kind. For a request with an earlier
// time, the clock went back.
func (p *Params) LatestState(s State) int64 {
	switch p.Kind {
	case KindBucket, KindLeaky:
		return s.T
	case KindFixedWindow:
		end, _ := p.Fixed.unpack(s)
		return end - p.Fixed.Length
	default:
		index, _, _ := p.Counter.unpack(s)
		return index * p.Counter.Length
	}
}
