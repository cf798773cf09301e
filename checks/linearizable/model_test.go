package linearizable

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicehq/sluice"
)

// state is what a model knows of one key: a comparable value that is never
// changed. All units are worth a thousand microseconds, so that all is whole.
type state interface {
	// advance returns the state as of a time that is not earlier.
	advance(now int64) state
	// decide answers a question and returns the state after it.
	decide(a ask) (sluice.Decision, state)
	// cancel gives a charge back.
	cancel(c charge) state
	// settle replaces the cost of a charge.
	settle(c charge, actual int64) state
	// release ends a lease, and reports whether there was one.
	release(member uint64) (bool, state)
}

// noLease is embedded in the states that hold no leases.
type noLease struct{}

func (noLease) release(uint64) (bool, state) { panic("no lease") }

// ask is a question about a key.
type ask struct {
	cost, floor int64
	wait        int64 // microseconds; 0 for what the limit offers
	member      uint64
}

// charge is what an allowed question took, as its caller knows it.
type charge struct {
	ask
	at, delay, reset int64
	over             uint64        // of the receipt
	store            sluice.Charge // for the store
}

type verb uint8

const (
	take verb = iota
	peek
	reset
	cancel
	settle
	release
	batch // one question about each of two keys
)

var verbs = [...]string{"take", "peek", "reset", "cancel", "settle", "release", "batch"}

// call is one call of a caller.
type call struct {
	verb   verb
	key    int
	now    int64
	asks   [2]ask // a batch asks twice, others once
	charge charge
	actual int64
}

// result is what a call returned.
type result struct {
	decisions [2]sluice.Decision
	lost      bool // the lease was
}

// limited is a denial for now.
func limited(remaining, retry, reset int64) sluice.Decision {
	return sluice.Decision{
		Reason: sluice.ReasonLimited, Remaining: max(remaining, 0),
		RetryAfter: micros(retry), ResetAfter: micros(reset),
	}
}

// never is a denial for good.
func never(remaining, reset int64) sluice.Decision {
	return sluice.Decision{Reason: sluice.ReasonNever, Remaining: max(remaining, 0), ResetAfter: micros(reset)}
}

// allowed is a pass.
func allowed(remaining, delay, reset int64) sluice.Decision {
	return sluice.Decision{Allowed: true, Remaining: max(remaining, 0), Delay: micros(delay), ResetAfter: micros(reset)}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// look answers as decide, and says what could be taken.
func look(s state, a ask) sluice.Decision {
	d, _ := s.decide(a)
	if d.Allowed && a.cost > 0 {
		a.cost = 0
		none, _ := s.decide(a)
		d.Remaining = none.Remaining
	}
	return d
}

// same compares an answer of the store with that of the model, which knows neither
// the capacity nor receipts.
func same(got, want sluice.Decision) bool {
	want.Limit, got.Receipt = got.Limit, sluice.Receipt{}
	return got == want
}

// step is the model of one key.
func step(fresh, s state, in *call, out *result) (bool, state) {
	s = s.advance(in.now)
	switch in.verb {
	case take:
		d, next := s.decide(in.asks[0])
		return same(out.decisions[0], d), next
	case peek:
		return same(out.decisions[0], look(s, in.asks[0])), s
	case reset:
		return true, fresh.advance(in.now)
	case cancel:
		return true, s.cancel(in.charge)
	case settle:
		return true, s.settle(in.charge, in.actual)
	default:
		held, next := s.release(in.charge.member)
		return held == !out.lost, next
	}
}

// pair is the state of two keys that batches ask about.
type pair [2]state

// step is the model of two keys.
func (p pair) step(fresh state, in *call, out *result) (bool, pair) {
	if in.verb != batch {
		ok, next := step(fresh, p[in.key], in, out)
		p[in.key] = next
		return ok, p
	}
	var want [2]sluice.Decision
	var next pair
	for i := range p {
		p[i] = p[i].advance(in.now)
		want[i], next[i] = p[i].decide(in.asks[i])
	}
	if !want[0].Allowed || !want[1].Allowed {
		next = p
		for i := range p {
			want[i] = look(p[i], in.asks[i])
		}
	}
	return same(out.decisions[0], want[0]) && same(out.decisions[1], want[1]), next
}

// keyModel checks the calls about each key on their own.
func keyModel(fresh state) porcupine.Model {
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
		Step: func(s, in, out any) (bool, any) { return step(fresh, s.(state), in.(*call), out.(*result)) },
	}
}

// pairModel checks the calls about two keys, and both, together.
func pairModel(fresh state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return pair{fresh, fresh} },
		Step: func(s, in, out any) (bool, any) { return s.(pair).step(fresh, in.(*call), out.(*result)) },
	}
}

// describe writes one call for a person to read.
func describe(o porcupine.Operation) string {
	in, out := o.Input.(*call), o.Output.(*result)
	text := fmt.Sprintf("[%d, %d] caller %d at %d: %s key %d", o.Call, o.Return, o.ClientId, in.now, verbs[in.verb], in.key)
	switch in.verb {
	case take, peek:
		return text + fmt.Sprintf(" %+v: %+v", in.asks[0], out.decisions[0])
	case batch:
		return text + fmt.Sprintf(" %+v: %+v", in.asks, out.decisions)
	case reset:
		return text
	default:
		c := in.charge
		return text + fmt.Sprintf(" %+v of %d, delay %d, to %d: lost %v", c.ask, c.at, c.delay, in.actual, out.lost)
	}
}
