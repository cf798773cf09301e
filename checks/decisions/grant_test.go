package decisions

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

// hybrid returns a limit with hybrid terms.
func hybrid(tb testing.TB, name string, a sluice.Algorithm, h sluice.Hybrid) *sluice.Limit {
	tb.Helper()
	l, err := sluice.MustLimit(name, a).WithHybrid(h)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// grants is a store under a clock of the test, and a key of which processes hold units.
type grants struct {
	*testing.T
	a     *arena
	store *redisstore.Store
	key   sluice.Key
	now   int64
}

func newGrants(t *testing.T) *grants {
	t.Helper()
	g := &grants{T: t, a: newArena(t), key: sluice.StringKey("k"), now: 1_750_000_000_000_000}
	client := redistest.WithClock(plainClient{g.a.conn}, func() int64 { return g.now })
	var err error
	if g.store, err = redisstore.New(client, redisstore.Options{Clock: func() int64 { return g.now }}); err != nil {
		t.Fatal(err)
	}
	return g
}

// claim handles one claim.
func (g *grants) claim(l *sluice.Limit, holder uint64, c driver.Claim) driver.Grant {
	g.Helper()
	c.Limit, c.Key = l, g.key
	var out [1]driver.Grant
	g.store.Grant(g.Context(), holder, []driver.Claim{c}, out[:])
	if out[0].Err != nil {
		g.Fatalf("the claim %+v failed: %v", c, out[0].Err)
	}
	return out[0]
}

// want checks an answer without its decision.
func (g *grants) want(got, want driver.Grant) {
	g.Helper()
	got.Decision = sluice.Decision{}
	want.Now = g.now
	if got != want {
		g.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// remaining returns what an exact request sees.
func (g *grants) remaining(l *sluice.Limit) int64 {
	g.Helper()
	d, err := g.store.Decide(g.Context(), sluice.Request{Limit: l, Key: g.key, Cost: 1, Peek: true})
	if err != nil {
		g.Fatal(err)
	}
	return d.Remaining
}

// TestGrantLifecycle follows the units of a key through a grant, a report, a return, a lost
// answer, an expiry and a reset. Exact requests count all that processes hold as used.
func TestGrantLifecycle(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	b := sluice.TokenBucket{Rate: sluice.PerHour(100)}
	exact, l := sluice.MustLimit("l", b), hybrid(t, "l", b, sluice.Hybrid{Stranded: 0.5})
	const life = 2_000_000
	start := g.now

	first := g.claim(l, 7, driver.Claim{Seq: 1, Take: 3, Want: 20, Demand: 1000})
	g.want(first, driver.Grant{Units: 20, Held: 20, Birth: 1, Till: start + life, Free: 77, Escrow: 20, Holders: 1, Demands: 1000})
	if d := first.Decision; !d.Allowed || d.Remaining != 97 || d.Receipt.At != g.now {
		t.Errorf("the request in the claim: %+v", d)
	}
	g.now += 1000
	again := g.claim(l, 7, driver.Claim{Seq: 1, Take: 3, Want: 20, Demand: 1000})
	g.want(again, driver.Grant{Units: 20, Held: 20, Birth: 1, Till: start + life, Free: 77, Escrow: 20, Holders: 1, Demands: 1000})
	if d := again.Decision; !d.Allowed || d.Remaining != 77 || d.Receipt.At != start {
		t.Errorf("the request in the repeated claim: %+v", d)
	}
	if got := g.remaining(exact); got != 77 {
		t.Errorf("an exact request sees %d units", got)
	}
	// Two holders share the half that may be granted, and of what is free by their demands.
	g.want(g.claim(l, 8, driver.Claim{Seq: 5, Want: 50, Demand: 1000}),
		driver.Grant{Units: 19, Held: 19, Birth: 5, Till: g.now + life, Free: 58, Escrow: 39, Holders: 2, Demands: 2000})
	// A report, a return, and a stale claim.
	g.now += 1000
	g.want(g.claim(l, 7, driver.Claim{Seq: 2, Birth: 1, Till: first.Till, Spent: 5, Returned: 3}),
		driver.Grant{Held: 12, Birth: 1, Till: g.now + life, Free: 61, Escrow: 31, Holders: 2, Demands: 1001})
	g.want(g.claim(l, 7, driver.Claim{Seq: 1, Take: 3, Want: 20, Demand: 1000}),
		driver.Grant{Stale: true, Held: 12, Birth: 1, Till: g.now + life, Free: 61, Escrow: 31, Holders: 2, Demands: 1001})
	// The holder has started again: what it held counts as used.
	g.want(g.claim(l, 7, driver.Claim{Seq: 3}), driver.Grant{Till: g.now + life, Free: 61, Escrow: 19, Holders: 1, Demands: 1000})
	// Expiry books the rest.
	g.now += life
	if got := g.remaining(exact); got != 61 {
		t.Errorf("an exact request sees %d units after the expiry", got)
	}
	g.want(g.claim(l, 8, driver.Claim{Seq: 6, Birth: 5, Till: start + 1000 + life, Spent: 19, Want: 9, Least: 2}),
		driver.Grant{Units: 9, Held: 9, Birth: 6, Till: g.now + life, Free: 52, Escrow: 9, Holders: 1, Demands: 1})
	// A reset forgets what was used, and keeps what processes hold.
	if err := g.store.Reset(t.Context(), exact, g.key); err != nil {
		t.Fatal(err)
	}
	if got := g.remaining(exact); got != 91 {
		t.Errorf("an exact request sees %d units after the reset", got)
	}
	// Spends of a grant that the server does not know count.
	g.want(g.claim(l, 9, driver.Claim{Seq: 9, Birth: 2, Till: g.now + 1, Spent: 11}),
		driver.Grant{Till: g.now + life, Free: 80, Escrow: 9, Holders: 1, Demands: 1})
	g.want(g.claim(l, 10, driver.Claim{Seq: 9, Birth: 2, Till: g.now, Spent: 11}), driver.Grant{Till: g.now + life, Free: 80, Escrow: 9, Holders: 1, Demands: 1})
}

// TestInvalidClaims: each invalid claim has its error, and the others of the call are handled.
func TestInvalidClaims(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	b := sluice.TokenBucket{Rate: sluice.PerHour(100)}
	l, other := hybrid(t, "l", b, sluice.Hybrid{}), hybrid(t, "other", b, sluice.Hybrid{})
	key := sluice.StringKey
	cs := []driver.Claim{
		{Key: key("a"), Seq: 1},
		{Limit: sluice.MustLimit("l", b), Key: key("a"), Seq: 1},
		{Limit: l, Key: key("a")},
		{Limit: l, Key: key("a"), Seq: 1 << 53},
		{Limit: l, Key: key("a"), Seq: 1, Birth: 2},
		{Limit: l, Key: key("a"), Seq: 1, Spent: -1},
		{Limit: l, Key: key("a"), Seq: 1, Want: 1},
		{Limit: l, Key: key("a"), Seq: 2, Want: 1},
		{Limit: other, Key: key("a"), Seq: 2, Want: 1},
		{Limit: l, Key: key("foreign"), Seq: 2, Want: 1},
	}
	if _, err := g.a.conn.Do(t.Context(), "SET", "sluice{foreign}:l", "text"); err != nil {
		t.Fatal(err)
	}
	out := make([]driver.Grant, len(cs))
	g.store.Grant(t.Context(), 7, cs, out)
	for i, got := range out {
		var request *sluice.RequestError
		switch {
		case i == 6 || i == 8:
			if got.Err != nil || got.Units != 1 {
				t.Errorf("a valid claim %+v should get one unit: %+v", cs[i], got)
			}
		case i == 9:
			if !errors.Is(got.Err, sluice.ErrForeignState) {
				t.Errorf("a foreign state: %+v", got)
			}
		case !errors.As(got.Err, &request):
			t.Errorf("the claim %+v is invalid, but got %+v", cs[i], got)
		}
	}
}

// TestGrantsKeepStates: a state is kept as long as units of its key are in escrow, and until they
// would have come back.
func TestGrantsKeepStates(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	l := hybrid(t, "l", sluice.TokenBucket{Rate: sluice.PerSecond(1000)}, sluice.Hybrid{Life: time.Minute})
	g.claim(l, 7, driver.Claim{Seq: 1, Want: 50})
	before := g.a.clock(t)
	g.claim(l, 7, driver.Claim{Seq: 2, Birth: 1, Till: g.now + 60_000_000})
	least, _ := g.a.lifetime(t, "sluice{k}:l", before, before)
	if least < time.Minute+50*time.Millisecond || least > time.Minute+time.Second {
		t.Errorf("the state is kept for %v", least)
	}
}

// TestGrantsStayWithinTheirCap: units that a process has in hand are not granted again as a part of what may be granted
// at once, in any order of the claims.
func TestGrantsStayWithinTheirCap(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	l := hybrid(t, "l", sluice.TokenBucket{Rate: sluice.PerHour(1000)}, sluice.Hybrid{Stranded: 0.1})
	all := int64(0)
	for holder := range uint64(5) {
		got := g.claim(l, holder+1, driver.Claim{Seq: 1, Want: 1000, Demand: 1000})
		all += got.Units
		if got.Escrow != all || all > l.Escrow() {
			t.Errorf("holder %d: %+v, and %d units in hand of %d that may be granted", holder, got, all, l.Escrow())
		}
	}
	if all != l.Escrow() {
		t.Errorf("%d units in hand of %d that may be granted", all, l.Escrow())
	}
}
