package hybrid_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/memory"
)

// bank is a shared store that grants units of token buckets, in plain arithmetic. Everything that is
// not about a token bucket goes to a store in memory.
type bank struct {
	sluice.Store
	mu       sync.Mutex
	accounts map[string]*account
	now      func() int64 // microseconds
	fault    func(ctx context.Context, claims []driver.Claim, handle func()) error
	calls    int // of Grant
	claims   int
	decides  int   // exact decisions
	broken   error // of exact decisions
}

// account is the state of one key: its tokens in millionths.
type account struct {
	tokens  int64
	at      int64
	holders map[uint64]*holder
}

type holder struct {
	seq, birth  uint64
	units, till int64
	demand      int64
	answer      driver.Grant
}

const million = 1_000_000

func newBank(tb testing.TB) *bank {
	tb.Helper()
	m, err := memory.New(memory.Options{MaxBytes: 4 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = m.Close() })
	return &bank{Store: m, accounts: map[string]*account{}, now: func() int64 { return time.Now().UnixMicro() }}
}

// perMicro returns how many millionths of a token come back in a microsecond.
func perMicro(l *sluice.Limit) int64 {
	return l.Rate().Count() * million / int64(l.Rate().Period()/time.Microsecond)
}

func (b *bank) account(l *sluice.Limit, k sluice.Key, now int64) *account {
	id := l.Name() + "\x00" + k.Text()
	a := b.accounts[id]
	if a == nil {
		a = &account{tokens: l.Capacity() * million, at: now, holders: map[uint64]*holder{}}
		b.accounts[id] = a
	}
	for _, h := range slices.SortedFunc(maps.Values(a.holders), func(x, y *holder) int { return int(x.till - y.till) }) {
		if h.till <= now {
			a.pass(l, h.till)
			a.tokens -= h.units * million
			h.units = 0
		}
	}
	maps.DeleteFunc(a.holders, func(_ uint64, h *holder) bool { return h.till <= now })
	a.pass(l, now)
	return a
}

// pass lets time pass.
func (a *account) pass(l *sluice.Limit, now int64) {
	if now <= a.at {
		return
	}
	a.tokens = min(l.Capacity()*million, a.tokens+(now-a.at)*perMicro(l))
	a.at = now
}

func (a *account) escrow() (sum, demands int64) {
	for _, h := range a.holders {
		sum += h.units
		demands += h.demand
	}
	return sum, demands
}

// free returns the free tokens in millionths.
func (a *account) free() int64 {
	e, _ := a.escrow()
	return a.tokens - e*million
}

func floorDiv(n int64) int64 {
	if n < 0 {
		return -((-n + million - 1) / million)
	}
	return n / million
}

// decide decides a request. What a denied debit takes is owed, without a bound.
func (a *account) decide(r *sluice.Request) sluice.Decision {
	if r.Overdraw && r.Cost > 1 {
		d := a.take(r.Limit, 1, r.Floor, true)
		if d.Allowed && !r.Peek {
			a.tokens -= r.Cost * million
			d = a.take(r.Limit, 0, 0, true)
			d.Allowed, d.Reason, d.RetryAfter = true, sluice.ReasonNone, 0
		}
		return d
	}
	d := a.take(r.Limit, r.Cost, r.Floor, r.Peek)
	if r.Debit && !r.Peek && !d.Allowed {
		a.tokens -= r.Cost * million
		d = a.take(r.Limit, r.Cost, r.Floor, true)
	}
	return d
}

// take decides a request.
func (a *account) take(l *sluice.Limit, cost, floor int64, peek bool) sluice.Decision {
	free := a.free()
	if h := l.Hybrid(); h != nil {
		e, _ := a.escrow()
		free += min(e, h.Overdraft) * million
	}
	d := sluice.Decision{Limit: l.Capacity()}
	rate := perMicro(l)
	switch need := (cost+floor)*million - free; {
	case cost+floor > l.Capacity():
		d.Reason = sluice.ReasonNever
	case need > 0:
		d.Reason = sluice.ReasonLimited
		d.RetryAfter = time.Duration((need+rate-1)/rate) * time.Microsecond
	default:
		d.Allowed = true
		d.Receipt.At = a.at
		if !peek {
			a.tokens -= cost * million
			free -= cost * million
		}
	}
	d.Remaining = max(0, floorDiv(free)-floor)
	d.ResetAfter = time.Duration((l.Capacity()*million-free)/rate) * time.Microsecond
	return d
}

func isBucket(l *sluice.Limit) bool {
	if l == nil || l.Hybrid() == nil {
		return false
	}
	_, ok := l.Algorithm().(sluice.TokenBucket)
	return ok
}

func (b *bank) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if !isBucket(r.Limit) || r.Ban != nil || r.MaxWait > 0 {
		return b.Store.Decide(ctx, r)
	}
	if err := ctx.Err(); err != nil {
		return sluice.Decision{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decides++
	if b.broken != nil {
		return sluice.Decision{}, b.broken
	}
	return b.account(r.Limit, r.Key, b.now()).decide(&r), nil
}

func (b *bank) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	for i := range rs {
		if !isBucket(rs[i].Limit) {
			return b.Store.DecideAll(ctx, rs, out)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// All are taken, and given back if one of them is denied.
	allowed := true
	before := make(map[*account]int64)
	for i := range rs {
		b.decides++
		a := b.account(rs[i].Limit, rs[i].Key, b.now())
		if _, ok := before[a]; !ok {
			before[a] = a.tokens
		}
		out[i] = a.decide(&rs[i])
		allowed = allowed && (out[i].Allowed || rs[i].Shadow)
	}
	if allowed {
		return nil
	}
	for a, tokens := range before {
		a.tokens = tokens
	}
	for i := range rs {
		if rs[i].Debit && !rs[i].Peek {
			out[i] = b.account(rs[i].Limit, rs[i].Key, b.now()).decide(&rs[i])
		}
	}
	for i := range rs {
		if rs[i].Debit && !rs[i].Peek {
			continue
		}
		if rs[i].Shadow || out[i].Allowed {
			a := b.account(rs[i].Limit, rs[i].Key, b.now())
			out[i] = a.take(rs[i].Limit, rs[i].Cost, rs[i].Floor, rs[i].Peek || !rs[i].Shadow)
		}
	}
	return nil
}

func (b *bank) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	if !isBucket(c.Limit) {
		return b.Store.Settle(ctx, c, actual)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(c.Limit, c.Key, b.now())
	a.tokens = min(c.Limit.Capacity()*million, a.tokens+(c.Cost-actual)*million)
	return nil
}

func (b *bank) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	if !isBucket(l) {
		return b.Store.Reset(ctx, l, k)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(l, k, b.now()).tokens = l.Capacity() * million
	return nil
}

func (b *bank) Grant(ctx context.Context, id uint64, claims []driver.Claim, out []driver.Grant) {
	b.mu.Lock()
	b.calls++
	b.claims += len(claims)
	fault := b.fault
	b.mu.Unlock()
	copied, answers := slices.Clone(claims), make([]driver.Grant, len(claims)) // for calls that are handled late
	handle := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i := range copied {
			answers[i] = b.grant(id, &copied[i])
		}
	}
	if fault == nil {
		handle()
	} else if err := fault(ctx, claims, handle); err != nil {
		for i := range out {
			out[i] = driver.Grant{Err: err}
		}
		return
	}
	copy(out, answers)
}

func (b *bank) grant(id uint64, c *driver.Claim) (g driver.Grant) {
	now := b.now()
	a := b.account(c.Limit, c.Key, now)
	h := a.holders[id]
	terms := c.Limit.Hybrid()
	defer func() {
		if h == nil {
			h = new(holder)
		}
		g.Now, g.Till, g.Held, g.Birth = now, h.till, h.units, h.birth
		g.Free, g.Holders = floorDiv(a.free()), len(a.holders)
		g.Escrow, g.Demands = a.escrow()
	}()
	switch {
	case h == nil:
		h = new(holder)
	case c.Seq < h.seq:
		return driver.Grant{Stale: true}
	case c.Seq == h.seq:
		return h.answer
	}
	switch {
	case c.Birth != 0 && c.Birth == h.birth:
		h.units -= min(h.units, c.Spent)
		a.tokens -= c.Spent * million
		h.units -= min(h.units, c.Returned)
	default:
		if h.units > 0 {
			a.tokens -= h.units * million
			h.units = 0
		}
		if c.Birth == 0 || c.Till > now {
			a.tokens -= c.Spent * million
		}
	}
	if h.units == 0 {
		h.birth = 0
	}
	h.seq, h.demand, h.till = c.Seq, c.Demand, now+int64(terms.Life/time.Microsecond)
	a.holders[id] = h
	if c.Take > 0 {
		g.Decision = a.take(c.Limit, c.Take, c.Floor, false)
	} else {
		g.Decision = a.take(c.Limit, max(1, c.Least), c.Floor, true)
	}
	if c.Want > 0 {
		free := floorDiv(a.free()) - c.Floor
		e, demands := a.escrow()
		half := int64(0)
		if demands > 0 && free > 0 {
			half = free * h.demand / demands / 2
		}
		least := max(1, c.Least)
		q := min(c.Want, c.Limit.Escrow()/int64(len(a.holders))-h.units, max(least, half), free+terms.Overdraft, c.Limit.Escrow()-e)
		if q >= least {
			g.Units = q
			h.units += q
			if h.birth == 0 {
				h.birth = c.Seq
			}
		}
	}
	h.answer = g
	return g
}

var key = sluice.StringKey("192.0.2.1")

// bucket returns a token bucket with hybrid terms.
func bucket(perSecond, burst int64, h sluice.Hybrid) *sluice.Limit {
	l, err := sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.PerSecond(perSecond), Burst: burst}).WithHybrid(h)
	if err != nil {
		panic(err)
	}
	return l
}

// open returns a hybrid store over a bank.
func open(tb testing.TB, b driver.Grantor, o hybrid.Options) *hybrid.Store {
	tb.Helper()
	s, err := hybrid.New(b, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func take(tb testing.TB, s sluice.Store, l *sluice.Limit, n int64) sluice.Decision {
	tb.Helper()
	d, err := s.Decide(context.Background(), sluice.Request{Limit: l, Key: key, Cost: n})
	if err != nil {
		tb.Fatalf("Decide: %v", err)
	}
	return d
}

// pass lets time pass in a bubble of package synctest.
func pass(d time.Duration) { <-time.After(d) }
