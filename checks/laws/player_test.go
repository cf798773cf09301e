package laws

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// candidate is a state that a key may have, with the charges that were made to it.
type candidate struct {
	oracle
	charges map[int]charge
}

// place is a key of a limit. A state that time has made equal to a fresh one may
// be forgotten or not, which tells when the clock goes back: then a key has two
// candidates, until an answer fits only one.
type place struct {
	*subject
	key        sluice.Key
	candidates []candidate
}

// forget adds a fresh state to the candidates, if one of them may be forgotten.
func (p *place) forget(now int64) {
	for _, c := range p.candidates {
		if c.fresh(now) {
			p.add(candidate{p.subject.fresh, maps.Clone(c.charges)})
			return
		}
	}
}

// add adds a candidate unless it is there.
func (p *place) add(c candidate) {
	if !slices.ContainsFunc(p.candidates, func(d candidate) bool { return d.same(c.oracle) }) {
		p.candidates = append(p.candidates, c)
	}
}

// taken is a charge that has not been ended.
type taken struct {
	*place
	id     int
	charge sluice.Charge
}

// player asks a store and the oracles.
type player struct {
	*rapid.T
	store  *memory.Store
	now    int64
	high   int64 // the latest time that was
	period int64 // how far the clock may go back
	back   bool
	member uint64
	ids    int
	places []*place
	taken  []taken
}

// newPlayer returns a player of some keys of limits.
func newPlayer(t *rapid.T, subjects ...subject) *player {
	t.Helper()
	p := &player{T: t, period: 1 << 62}
	p.now = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	p.now += rapid.Int64Range(0, int64(day/time.Microsecond)).Draw(t, "start")
	p.high = p.now
	store, err := memory.New(memory.Options{MaxBytes: 1 << 20, Shards: 1, Clock: func() int64 { return p.now }})
	if err != nil {
		t.Fatal(err)
	}
	p.store = store
	for i := range subjects {
		p.period = min(p.period, subjects[i].period)
		for _, key := range []string{"a", "b"} {
			s := &subjects[i]
			fresh := candidate{s.fresh, map[int]charge{}}
			p.places = append(p.places, &place{s, sluice.StringKey(key), []candidate{fresh}})
		}
	}
	return p
}

// pass lets time pass, or not, or turns it back a little.
func (p *player) pass() {
	step := rapid.Int64Range(0, 1).Draw(p.T, "step")
	switch rapid.IntRange(0, 7).Draw(p.T, "pace") {
	case 0, 1:
	case 2:
		step = rapid.Int64Range(1, 1000).Draw(p.T, "step")
	case 3, 4:
		step = rapid.Int64Range(0, p.period).Draw(p.T, "step")
	case 5:
		step = p.period * rapid.Int64Range(1, 3).Draw(p.T, "periods")
	case 6:
		step = p.period * rapid.Int64Range(0, 100).Draw(p.T, "periods")
	case 7:
		if p.back {
			p.now = max(p.now-rapid.Int64Range(0, p.period).Draw(p.T, "back"), p.high-p.period)
			return
		}
	}
	p.now += step
	p.high = max(p.high, p.now)
}

// request makes up a request about a place.
func (p *player) request(at *place) (sluice.Request, ask) {
	capacity := at.limit.Capacity()
	r := sluice.Request{Limit: at.limit, Key: at.key}
	r.Cost = rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(1, 3),
		rapid.Int64Range(1, capacity),
		rapid.Int64Range(capacity, capacity+1),
	).Draw(p.T, "cost")
	if rapid.IntRange(0, 3).Draw(p.T, "with floor") == 0 {
		r.Floor = rapid.Int64Range(0, capacity+1).Draw(p.T, "floor")
	}
	a := ask{now: p.now}
	switch rapid.IntRange(0, 7).Draw(p.T, "wait") {
	case 0:
		r.MaxWait, a.wait = sluice.NoWait, -1
	case 1, 2, 3, 4:
		if !at.leases {
			a.wait = rapid.OneOf(rapid.Int64Range(1, at.period), rapid.Just(at.period)).Draw(p.T, "max wait")
			r.MaxWait = micros(a.wait)
		}
	}
	if at.leases {
		p.member++
		r.Member = p.member
		if rapid.IntRange(0, 5).Draw(p.T, "renews") == 0 {
			r.Member = rapid.Uint64Range(1, p.member).Draw(p.T, "member")
		}
	}
	a.cost, a.floor, a.member = r.Cost, r.Floor, r.Member
	return r, a
}

// decide asks the store.
func (p *player) decide(r sluice.Request) sluice.Decision {
	p.Helper()
	d, err := p.store.Decide(context.Background(), r)
	if err != nil {
		p.Fatalf("%+v: %v", r, err)
	}
	return d
}

// narrow keeps the candidates that pass, and fails if none does.
func (p *player) narrow(at *place, what string, got any, pass func(c candidate) (want any, next candidate, ok bool)) {
	p.Helper()
	var left []candidate
	var wants []any
	for _, c := range at.candidates {
		want, next, ok := pass(c)
		wants = append(wants, want)
		if ok {
			left = append(left, next)
		}
	}
	if len(left) == 0 {
		p.Fatalf("%v at %d: %s:\nstore  %+v\noracle %+v\nstates %+v", at.limit, p.now, what, got, wants, at.candidates)
	}
	at.candidates = nil
	for _, c := range left {
		at.add(c)
	}
}

// same compares what callers see of a decision.
func same(got, want sluice.Decision) bool {
	want.Limit, got.Receipt = got.Limit, sluice.Receipt{}
	return got == want
}

// after returns the candidate after a decision.
func (c candidate) after(id int, ch charge, next oracle) candidate {
	charges := maps.Clone(c.charges)
	charges[id] = ch
	return candidate{next, charges}
}

// one asks for one thing.
func (p *player) one(at *place) {
	r, a := p.request(at)
	r.Peek = rapid.IntRange(0, 4).Draw(p.T, "peek") == 0
	got := p.decide(r)
	p.ids++
	p.narrow(at, "request", got, func(c candidate) (any, candidate, bool) {
		if r.Peek {
			want := look(c, a)
			return want, c, same(got, want)
		}
		want, ch, next := c.decide(a)
		return want, c.after(p.ids, ch, next), same(got, want)
	})
	if got.Allowed && !r.Peek {
		p.taken = append(p.taken, taken{at, p.ids, r.Charge(&got)})
	}
}

// end ends a charge.
func (p *player) end() {
	if len(p.taken) == 0 {
		return
	}
	i := len(p.taken) - 1 - rapid.IntRange(0, min(len(p.taken), 4)-1).Draw(p.T, "charge")
	e := p.taken[i]
	p.taken = slices.Delete(p.taken, i, i+1)
	_, log := e.limit.Algorithm().(sluice.SlidingLog)
	if log && (e.hammer || e.charge.Cost == 0) {
		return // an attempt may have pushed it out
	}
	ctx := context.Background()
	var err error
	switch verb := rapid.IntRange(0, 2).Draw(p.T, "end"); {
	case e.leases && verb > 0:
		err = p.store.Release(ctx, e.charge, 0)
		lost := errors.Is(err, sluice.ErrLeaseLost)
		if lost {
			err = nil
		}
		p.narrow(e.place, "release", lost, func(c candidate) (any, candidate, bool) {
			held := c.oracle.(leases).as(p.now)
			_, ok := held.held[e.charge.Member]
			return !ok, candidate{c.cancel(p.now, charge{ask: ask{cost: 1, member: e.charge.Member}}), c.charges}, ok != lost
		})
	case verb == 0 || e.leases:
		err = p.store.Cancel(ctx, e.charge)
		p.narrow(e.place, "cancel", nil, func(c candidate) (any, candidate, bool) {
			return nil, candidate{c.cancel(p.now, c.charges[e.id]), c.charges}, true
		})
	default:
		actual := rapid.Int64Range(0, 2*e.charge.Cost+2).Draw(p.T, "actual")
		err = p.store.Settle(ctx, e.charge, actual)
		p.narrow(e.place, "settle", nil, func(c candidate) (any, candidate, bool) {
			return nil, candidate{c.settle(p.now, c.charges[e.id], actual), c.charges}, true
		})
	}
	if err != nil {
		p.Fatalf("ending %+v: %v", e.charge, err)
	}
}

// reset forgets a key, and the charges that were made to it.
func (p *player) reset(at *place) {
	if err := p.store.Reset(context.Background(), at.limit, at.key); err != nil {
		p.Fatal(err)
	}
	at.candidates = []candidate{{at.subject.fresh, map[int]charge{}}}
	p.taken = slices.DeleteFunc(p.taken, func(e taken) bool { return e.place == at })
}

// seed adds some random inputs to a corpus.
func seed(f *testing.F) {
	f.Helper()
	for n := range uint64(8) {
		random := rand.New(rand.NewPCG(n, 1))
		input := make([]byte, 4096)
		for i := range input {
			input[i] = byte(random.Uint32())
		}
		f.Add(input)
	}
}
