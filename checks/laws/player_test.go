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
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/memory"
)

// A candidate is a state that a key may have, with the charges that it took.
type candidate struct {
	oracle.State
	charges map[int]oracle.Charge
}

// An account is a key of a limit. The store may forget a state that equals a fresh one, which makes a
// difference when the clock goes back. Then the account has two candidates, until a decision fits only
// one of them.
type account struct {
	*subject
	key        sluice.Key
	candidates []candidate
	debited    bool // a debit was made
}

// forget adds a fresh state to the candidates, if one of them may be forgotten.
func (a *account) forget(now int64) {
	for _, c := range a.candidates {
		if c.Fresh(now) {
			a.add(candidate{a.subject.fresh, maps.Clone(c.charges)})
			return
		}
	}
}

// add adds a candidate, unless it has an equal one.
func (a *account) add(c candidate) {
	if !slices.ContainsFunc(a.candidates, func(d candidate) bool { return d.Equal(c.State) }) {
		a.candidates = append(a.candidates, c)
	}
}

// A taken charge is one that has not been ended.
type taken struct {
	*account
	id     int
	charge sluice.Charge
	acts   int64
	steady bool // the clock was not set back before
}

// A player sends the same requests to a store and to the oracles.
type player struct {
	*rapid.T
	store    *memory.Store
	now      int64
	high     int64 // the latest time so far
	period   int64 // how far the clock may go back
	back     bool
	member   uint64
	ids      int
	accounts []*account
	taken    []taken
}

// newPlayer returns a player with two keys of each limit.
func newPlayer(t *rapid.T, subjects ...subject) *player {
	t.Helper()
	p := &player{T: t, period: 1 << 62}
	p.now = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	p.now += rapid.Int64Range(0, int64(day/time.Microsecond)).Draw(t, "start")
	p.high = p.now
	store, err := memory.New(memory.Options{MaxBytes: 1 << 20, Stripes: 1, Clock: func() int64 { return p.now }})
	if err != nil {
		t.Fatal(err)
	}
	p.store = store
	for i := range subjects {
		p.period = min(p.period, subjects[i].period)
		for _, key := range []string{"a", "b"} {
			s := &subjects[i]
			fresh := candidate{s.fresh, map[int]oracle.Charge{}}
			p.accounts = append(p.accounts, &account{s, sluice.StringKey(key), []candidate{fresh}, false})
		}
	}
	return p
}

// pass moves the clock on, or not, or back a little.
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

// request makes up a request about an account, in the forms of the store and of the oracle.
func (p *player) request(at *account) (sluice.Request, oracle.Request) {
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
	o := oracle.Request{Now: p.now}
	switch rapid.IntRange(0, 7).Draw(p.T, "wait") {
	case 0:
		r.MaxWait, o.MaxWait = sluice.NoWait, -1
	case 1, 2, 3, 4:
		if !at.leases {
			o.MaxWait = rapid.OneOf(rapid.Int64Range(1, at.period), rapid.Just(at.period)).Draw(p.T, "max wait")
			r.MaxWait = micros(o.MaxWait)
		}
	}
	if at.leases {
		p.member++
		r.Member = p.member
		if rapid.IntRange(0, 5).Draw(p.T, "renews") == 0 {
			r.Member = rapid.Uint64Range(1, p.member).Draw(p.T, "member")
		}
	}
	r.Debit = at.limit.TakesDebits() && rapid.IntRange(0, 3).Draw(p.T, "debit") == 0
	if r.Overdraw = at.limit.TakesDebits() && !r.Debit && rapid.IntRange(0, 3).Draw(p.T, "overdraw") == 0; r.Overdraw {
		r.Cost *= rapid.SampledFrom([]int64{1, 3, 20}).Draw(p.T, "times")
	}
	at.debited = at.debited || r.Debit
	o.Cost, o.Floor, o.Member, o.Debit, o.Overdraw = r.Cost, r.Floor, r.Member, r.Debit, r.Overdraw
	return r, o
}

// decide sends a request to the store.
func (p *player) decide(r sluice.Request) sluice.Decision {
	p.Helper()
	d, err := p.store.Decide(context.Background(), r)
	if err != nil {
		p.Fatalf("the request %+v failed: %v", r, err)
	}
	return d
}

// narrow keeps the candidates that fit, and fails if none does.
func (p *player) narrow(at *account, what string, got any, fits func(c candidate) (want any, next candidate, ok bool)) {
	p.Helper()
	var left []candidate
	var wants []any
	for _, c := range at.candidates {
		want, next, ok := fits(c)
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

// after returns the candidate after a decision.
func (c candidate) after(id int, ch oracle.Charge, next oracle.State) candidate {
	charges := maps.Clone(c.charges)
	charges[id] = ch
	return candidate{next, charges}
}

// one sends one request.
func (p *player) one(at *account) {
	r, o := p.request(at)
	r.Peek = rapid.IntRange(0, 4).Draw(p.T, "peek") == 0
	got := p.decide(r)
	p.ids++
	p.narrow(at, "request", got, func(c candidate) (any, candidate, bool) {
		if r.Peek {
			o.Debit = false
			want := peek(c, o, got)
			return want, c, same(got, want)
		}
		want, ch, next := decide(c, o, got)
		return want, c.after(p.ids, ch, next), same(got, want)
	})
	if got.Allowed && !r.Peek {
		p.taken = append(p.taken, taken{at, p.ids, r.Charge(&got), p.acts(&r, &got), p.now >= p.high})
	}
}

// acts returns when a charge acts. A token bucket that is overdrawn takes the charge for acted at once.
func (p *player) acts(r *sluice.Request, d *sluice.Decision) int64 {
	if b, ok := r.Limit.Algorithm().(sluice.TokenBucket); ok && b.WarmUp == 0 && r.Overdraw && r.Cost > 1 {
		return d.Receipt.At
	}
	return p.now + d.Delay.Microseconds()
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
	if log && (e.hammer || e.debited || e.charge.Cost == 0) {
		return // a later attempt or debit may have removed its entry
	}
	ctx := context.Background()
	var err error
	switch verb := rapid.IntRange(0, 2).Draw(p.T, "end"); {
	case e.leases && verb > 0:
		latency := rapid.Int64Range(0, 3000).Draw(p.T, "latency")
		err = p.store.Release(ctx, e.charge, micros(latency))
		lost := errors.Is(err, sluice.ErrLeaseLost)
		if lost {
			err = nil
		}
		p.narrow(e.account, "release", lost, func(c candidate) (any, candidate, bool) {
			held, next := c.State.(oracle.Leases).Release(p.now, e.charge.Member, latency)
			return !held, candidate{next, c.charges}, held != lost
		})
	case verb == 0 || e.leases:
		err = p.store.Cancel(ctx, e.charge)
		acted := errors.Is(err, sluice.ErrActed)
		if acted {
			err = nil
		}
		if want := !e.leases && e.charge.Cost > 0 && p.now > e.acts; acted != want && (acted || e.steady) {
			p.Fatalf("at %d, canceling %+v, which acts at %d: has acted %v, want %v", p.now, e.charge, e.acts, acted, want)
		}
		p.narrow(e.account, "cancel", nil, func(c candidate) (any, candidate, bool) {
			return nil, candidate{c.Cancel(p.now, c.charges[e.id]), c.charges}, true
		})
	case e.charge.Limit.TakesDebits() && rapid.IntRange(0, 2).Draw(p.T, "newest") == 0:
		give := rapid.Int64Range(1, 2*e.charge.Limit.Capacity()).Draw(p.T, "give")
		err = p.store.Settle(ctx, sluice.Charge{Limit: e.charge.Limit, Key: e.charge.Key, Cost: give, Receipt: sluice.Receipt{At: oracle.Newest}}, 0)
		p.narrow(e.account, "give back", nil, func(c candidate) (any, candidate, bool) {
			return nil, candidate{c.Settle(p.now, oracle.Charge{Cost: give, At: oracle.Newest}, 0), c.charges}, true
		})
	default:
		actual := rapid.Int64Range(0, 2*e.charge.Cost+2).Draw(p.T, "actual")
		err = p.store.Settle(ctx, e.charge, actual)
		p.narrow(e.account, "settle", nil, func(c candidate) (any, candidate, bool) {
			return nil, candidate{c.Settle(p.now, c.charges[e.id], actual), c.charges}, true
		})
	}
	if err != nil {
		p.Fatalf("ending %+v: %v", e.charge, err)
	}
}

// reset resets a key, and drops its charges.
func (p *player) reset(at *account) {
	if err := p.store.Reset(context.Background(), at.limit, at.key); err != nil {
		p.Fatal(err)
	}
	at.candidates = []candidate{{at.subject.fresh, map[int]oracle.Charge{}}}
	p.taken = slices.DeleteFunc(p.taken, func(e taken) bool { return e.account == at })
}

// seed adds random inputs to a corpus.
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
