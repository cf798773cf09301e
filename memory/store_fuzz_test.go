package memory

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// fuzzLimits are versions of some limits of all algorithms. They are small, so that their bounds
// are often reached.
var fuzzLimits = func() (ls []*sluice.Limit) {
	for i, as := range [][]sluice.Algorithm{
		{
			sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5},
			sluice.TokenBucket{Rate: sluice.PerSecond(3), Burst: 7, Debt: 2},
			sluice.FixedWindow{Rate: sluice.PerSecond(4)},
			sluice.FixedWindow{Rate: sluice.PerSecond(3), Opened: true, CountDenied: true},
		},
		{
			sluice.SlidingLog{Rate: sluice.PerSecond(12), MinInterval: time.Millisecond},
			sluice.SlidingLog{Rate: sluice.PerSecond(3)},
			sluice.SlidingLog{Rate: sluice.PerSecond(20), CountDenied: true},
		},
		{
			sluice.Concurrency{Max: 3, Queue: 3, TTL: time.Second, Latency: 10 * time.Millisecond},
			sluice.Concurrency{Max: 12, TTL: time.Second},
		},
		{
			sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 4},
			sluice.SlidingWindow{Rate: sluice.PerSecond(6), Cells: 50},
			sluice.SlidingWindow{Rate: sluice.PerSecond(4), Cells: 4, CountDenied: true},
			sluice.SlidingCounter{Rate: sluice.PerSecond(6)},
			sluice.SlidingCounter{Rate: sluice.PerSecond(5), CountDenied: true},
		},
		{
			sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 4},
			sluice.LeakyBucket{Rate: sluice.PerSecond(7), Queue: 6, Undelayed: 3},
			sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 3, WarmUp: 500 * time.Millisecond},
		},
	} {
		for _, a := range as {
			ls = append(ls, sluice.MustLimit(string(rune('a'+i)), a))
		}
	}
	return ls
}()

// script reads operations from bytes; after the end it reads zeros.
type script struct {
	bytes []byte
}

func (s *script) n(below int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := int(s.bytes[0])
	s.bytes = s.bytes[1:]
	return b % below
}

// player plays a script on a store and on the model of one.
type player struct {
	testing.TB
	script
	limits  []*sluice.Limit
	now     int64
	store   *Store
	model   *model
	charges []sluice.Charge
	member  uint64
}

func (p *player) request() sluice.Request {
	r := sluice.Request{
		Limit:   p.limits[p.n(len(p.limits))],
		Key:     numbered(p.n(6)),
		Cost:    int64(p.n(4)),
		Floor:   int64(p.n(8) / 6),
		MaxWait: []time.Duration{0, 0, sluice.NoWait, 500 * time.Millisecond}[p.n(4)],
	}
	switch p.n(16) {
	case 0:
		r.Peek = true
	case 1:
		r.Shadow = true
	case 2:
		r.Ban = &sluice.Ban{After: 2, For: 300 * time.Millisecond}
	case 3:
		r.Ban = &sluice.Ban{
			After: 2, For: 100 * time.Millisecond, Forget: time.Second, Prolong: true,
			Escalate: []time.Duration{200 * time.Millisecond, 400 * time.Millisecond},
		}
	}
	p.member++
	r.Member = p.member
	if p.n(4) == 0 {
		r.Member = uint64(1 + p.n(9))
	}
	return r
}

func (p *player) same(got, want sluice.Decision, what string, r sluice.Request) {
	p.Helper()
	if got != want {
		p.Fatalf("%s %+v of %v:\nstore %+v\nmodel %+v", what, r, r.Limit, got, want)
	}
}

func (p *player) remember(r sluice.Request, d sluice.Decision) {
	if d.Allowed && !r.Peek {
		p.charges = append(p.charges, r.Charge(&d))
	}
}

// step plays one operation.
func (p *player) step() {
	p.Helper()
	ctx := p.Context()
	switch op := p.n(16); {
	case op < 7:
		r := p.request()
		got, err := p.store.Decide(ctx, r)
		if err != nil {
			p.Fatalf("request %+v failed: %v", r, err)
		}
		p.same(got, p.model.decide(&r), "request", r)
		p.remember(r, got)
	case op < 10:
		rs := make([]sluice.Request, p.n(6))
		for i := range rs {
			rs[i] = p.request()
			if i > 0 && p.n(2) == 0 {
				rs[i].Limit, rs[i].Key = rs[i-1].Limit, rs[i-1].Key
			}
		}
		got := make([]sluice.Decision, len(rs))
		if err := p.store.DecideAll(ctx, rs, got); err != nil {
			p.Fatalf("batch %+v failed: %v", rs, err)
		}
		allowed := true
		for i, want := range p.model.decideAll(rs) {
			p.same(got[i], want, "request of a batch", rs[i])
			allowed = allowed && (got[i].Allowed || rs[i].Shadow)
		}
		for i := range rs {
			if allowed || rs[i].Shadow {
				p.remember(rs[i], got[i])
			}
		}
	case op < 14:
		if len(p.charges) == 0 {
			return
		}
		i := max(0, len(p.charges)-1-p.n(12))
		c := p.charges[i]
		p.charges = append(p.charges[:i], p.charges[i+1:]...)
		p.endCharge(c)
	case op == 14:
		l, k := p.limits[p.n(len(p.limits))], numbered(p.n(6))
		if err := p.store.Reset(ctx, l, k); err != nil {
			p.Fatal(err)
		}
		p.model.reset(l, k)
	default:
		p.now += int64(p.n(200)) * int64(1+p.n(60)) * 97
	}
}

func (p *player) endCharge(c sluice.Charge) {
	p.Helper()
	var err error
	switch _, lease := c.Limit.Algorithm().(sluice.Concurrency); {
	case lease:
		latency := time.Duration(p.n(50)) * time.Millisecond
		err = p.store.Release(p.Context(), c, latency)
		if held := p.model.release(c, latency); held == errors.Is(err, sluice.ErrLeaseLost) {
			p.Fatalf("releasing %+v: %v; the model holds it: %v", c, err, held)
		}
		if errors.Is(err, sluice.ErrLeaseLost) {
			err = nil
		}
	case p.n(2) == 0:
		err = p.store.Cancel(p.Context(), c)
		if want := p.model.cancel(c); !errors.Is(err, want) {
			p.Fatalf("canceling %+v: %v; the model returns %v", c, err, want)
		}
		if errors.Is(err, sluice.ErrActed) {
			err = nil
		}
	default:
		actual := int64(p.n(7))
		err = p.store.Settle(p.Context(), c, actual)
		p.model.settle(c, actual)
	}
	if err != nil {
		p.Fatalf("ending %+v: %v", c, err)
	}
}

// look compares what is left of all keys.
func (p *player) look() {
	p.Helper()
	for _, l := range p.limits {
		for k := range 6 {
			r := sluice.Request{Limit: l, Key: numbered(k), Cost: 1, Peek: true}
			got, err := p.store.Decide(p.Context(), r)
			if err != nil {
				p.Fatal(err)
			}
			p.same(got, p.model.decide(&r), "peek", r)
		}
	}
}

// newPlayer returns a player with a store and a model of it.
func newPlayer(tb testing.TB, bytes []byte) *player {
	tb.Helper()
	p := &player{TB: tb, script: script{bytes[:min(len(bytes), 6000)]}, limits: fuzzLimits, now: start}
	if p.n(4) > 0 { // only some algorithms, so that requests share states more often
		i := p.n(len(p.limits))
		p.limits = p.limits[i:min(i+4, len(p.limits))]
	}
	p.store = open(tb, &p.now, Options{Stripes: 1 << p.n(3)})
	p.model = newModel(&p.now)
	return p
}

// play plays a whole script.
func play(tb testing.TB, bytes []byte) {
	tb.Helper()
	p := newPlayer(tb, bytes)
	for len(p.bytes) > 0 {
		p.step()
	}
	p.look()
}

// FuzzStore plays operations on a store that forgets, moves and shares its states, and on one
// that keeps them in a map forever: both decide the same.
func FuzzStore(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(noise(seed, 300))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { play(t, bytes) })
}

// TestStoreAgainstModel plays long scripts.
func TestStoreAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		play(t, noise(seed, 6000))
	}
}

// noise returns random bytes.
func noise(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
