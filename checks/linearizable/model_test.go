package linearizable

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/oracle"
)

// A charge is what an allowed request took, as far as its caller can see it.
type charge struct {
	request
	at, delay, reset int64
	over             uint64        // from the receipt
	store            sluice.Charge // for the store
}

// A request takes units of a key.
type request struct {
	cost, floor int64
	wait        int64 // microseconds; 0 for what the limit offers
	member      uint64
}

// oracle returns the request for the oracle.
func (r request) oracle(now int64) oracle.Request {
	return oracle.Request{Now: now, Cost: r.cost, Floor: r.floor, MaxWait: r.wait, Member: r.member}
}

// taken returns the charge for the oracle. All rates give a unit in a whole number of microseconds, so
// that the caller's figures are exact.
func (c charge) taken(s oracle.State) oracle.Charge {
	o := oracle.Charge{
		Cost: c.cost, Floor: c.floor, At: c.at, Member: c.member,
		Act: oracle.Rat(c.at+c.delay, 1), End: oracle.Rat(c.at+c.reset, 1),
	}
	switch s.(type) {
	case oracle.Bucket:
		if c.delay == 0 {
			o.Floor = 0
		}
	case oracle.WarmBucket:
		// The receipt holds the debt one microsecond before the charge acts.
		o.End = oracle.Rat(c.at+c.delay+int64(c.over)-1, 1)
	}
	return o
}

type verb uint8

const (
	take verb = iota
	peek
	reset
	cancel
	settle
	release
	batch // one request to each of two keys
)

var verbs = [...]string{"take", "peek", "reset", "cancel", "settle", "release", "batch"}

// A call is one call of a caller.
type call struct {
	verb     verb
	key      int
	now      int64
	requests [2]request // a batch has two, other calls one
	charge   charge
	actual   int64
}

// A result is what a call returned.
type result struct {
	decisions [2]sluice.Decision
	lost      bool // the lease had ended by itself
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// reasons are the oracle's words for the reasons of a decision.
var reasons = map[sluice.Reason]oracle.Reason{
	sluice.ReasonNone: oracle.None, sluice.ReasonLimited: oracle.Limited,
	sluice.ReasonTooSoon: oracle.TooSoon, sluice.ReasonNever: oracle.Never,
}

// fits reports whether a decision of the store is right, and returns the state after it.
func fits(s oracle.State, r request, now int64, d sluice.Decision, peek bool) (bool, oracle.State) {
	return oracle.Fits(s, r.oracle(now), oracle.Result{
		Allowed: d.Allowed, Reason: reasons[d.Reason], Remaining: d.Remaining, Delay: d.Delay.Microseconds(),
		RetryAfter: d.RetryAfter.Microseconds(), ResetAfter: d.ResetAfter.Microseconds(),
	}, peek)
}

// step is the model of one key.
func step(fresh, s oracle.State, in *call, out *result) (bool, oracle.State) {
	switch in.verb {
	case take, peek:
		return fits(s, in.requests[0], in.now, out.decisions[0], in.verb == peek)
	case reset:
		return true, fresh
	case cancel:
		return true, s.Cancel(in.now, in.charge.taken(s))
	case settle:
		return true, s.Settle(in.now, in.charge.taken(s), in.actual)
	default:
		held, next := s.(oracle.Leases).Release(in.now, in.charge.member, heldFor)
		return held == !out.lost, next
	}
}

// pair is the state of the two keys of batches.
type pair [2]oracle.State

// step is the model of two keys.
func (p pair) step(fresh oracle.State, in *call, out *result) (bool, pair) {
	if in.verb != batch {
		ok, next := step(fresh, p[in.key], in, out)
		p[in.key] = next
		return ok, p
	}
	// The requests of a batch that is denied are decided as peeks.
	all := out.decisions[0].Allowed && out.decisions[1].Allowed
	for i, s := range p {
		ok, next := fits(s, in.requests[i], in.now, out.decisions[i], !all)
		if !ok {
			return false, p
		}
		p[i] = next
	}
	return true, p
}

func equal(a, b any) bool { return a.(oracle.State).Equal(b.(oracle.State)) }

func equalPairs(a, b any) bool {
	p, q := a.(pair), b.(pair)
	return p[0].Equal(q[0]) && p[1].Equal(q[1])
}

// keyModel checks the calls of each key separately.
func keyModel(fresh oracle.State) porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, keys)
			for _, o := range history {
				k := o.Input.(*call).key
				parts[k] = append(parts[k], o)
			}
			return parts
		},
		Init: func() any { return fresh },
		Step: func(s, in, out any) (bool, any) {
			return step(fresh, s.(oracle.State), in.(*call), out.(*result))
		},
		Equal: equal,
	}
}

// pairModel checks the calls of two keys together, because batches use both.
func pairModel(fresh oracle.State) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return pair{fresh, fresh} },
		Step:  func(s, in, out any) (bool, any) { return s.(pair).step(fresh, in.(*call), out.(*result)) },
		Equal: equalPairs,
	}
}

// describe writes one call for a person to read.
func describe(o porcupine.Operation) string {
	in, out := o.Input.(*call), o.Output.(*result)
	text := fmt.Sprintf("[%d, %d] caller %d at %d: %s key %d", o.Call, o.Return, o.ClientId, in.now, verbs[in.verb], in.key)
	switch in.verb {
	case take, peek:
		return text + fmt.Sprintf(" %+v: %+v", in.requests[0], out.decisions[0])
	case batch:
		return text + fmt.Sprintf(" %+v: %+v", in.requests, out.decisions)
	case reset:
		return text
	default:
		c := in.charge
		return text + fmt.Sprintf(" %+v of %d, delay %d, to %d: lost %v", c.request, c.at, c.delay, in.actual, out.lost)
	}
}
