package decisions

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

// A spend is some units that a process or an exact request has used at a time.
type spend struct{ at, units int64 }

// most returns the most units that were used in any interval of a length: from one spend, up to
// but without the end.
func most(spends []spend, length int64) (most int64) {
	for i := range spends {
		sum := int64(0)
		for _, s := range spends[i:] {
			if s.at >= spends[i].at+length {
				break
			}
			sum += s.units
		}
		most = max(most, sum)
	}
	return most
}

// spender is a process that counts right: it spends what it holds before the grant ends.
type spender struct {
	id, seq    uint64
	birth      uint64
	till, left int64 // left may be spent
	spent      int64 // and not reported
	open       *driver.Claim
	during     int64 // spent since the unanswered claim was sent
}

// TestGrantsHoldTheBound: processes spend what they hold, some answers are lost, some processes
// end without a word, and other programs decide exactly on the same key. All that was used stays
// within the bound of the algorithm, with the overdraft.
func TestGrantsHoldTheBound(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for _, kind := range grantKinds {
		t.Run(kind.name, func(t *testing.T) {
			used := int64(0)
			for seed := range uint64(redistest.Times(t, 2)) {
				used += grantsHoldTheBound(t, a, kind, seed)
			}
			if used == 0 {
				t.Error("nothing was used")
			}
		})
	}
}

func grantsHoldTheBound(t *testing.T, a *arena, kind grantKind, seed uint64) (used int64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 11))
	below := func(n int64) int64 { return rnd.Int64N(max(n, 1)) }
	now := int64(1_750_000_000_000_000) + int64(seed)*999_983
	a.count++
	store, err := redisstore.New(redistest.WithClock(plainClient{a.conn}, func() int64 { return now }),
		redisstore.Options{Prefix: fmt.Sprint("bound", a.count), Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	count := 1 + below(40)
	h := sluice.Hybrid{Stranded: 1, Overdraft: below(2) * below(count+1), Sync: 10 * time.Millisecond, Life: time.Duration(40+below(2000)) * time.Millisecond}
	l, key := hybrid(t, "l", kind.algorithm(count), h), sluice.StringKey("k")
	exact := sluice.MustLimit("l", kind.algorithm(count))
	processes := make([]*spender, 1+below(5))
	ids := uint64(0)
	for i := range processes {
		ids++
		processes[i] = &spender{id: ids}
	}
	var spends []spend
	for range 200 {
		now += below(60_000) * (1 + below(2)*below(20))
		i := below(int64(len(processes)))
		p := processes[i]
		switch below(12) {
		case 0: // it ends, and another one comes
			ids++
			processes[i] = &spender{id: ids}
		case 1, 2: // another program
			r := sluice.Request{Limit: exact, Key: key, Cost: 1 + below(3), MaxWait: time.Duration(below(2)*below(500)) * time.Millisecond}
			d, err := store.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				continue
			}
			if d.Delay > 0 && below(2) == 0 {
				if err := store.Cancel(t.Context(), r.Charge(&d)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			spends = append(spends, spend{now + d.Delay.Microseconds(), r.Cost})
		case 3, 4, 5, 6, 7:
			n := min(p.left, 1+below(6))
			if n == 0 || now >= p.till {
				continue
			}
			p.left, p.spent = p.left-n, p.spent+n
			if p.open != nil {
				p.during += n
			}
			spends = append(spends, spend{now, n})
		default:
			p.claim(t, store, l, key, now, below, &spends)
		}
	}
	slices.SortStableFunc(spends, func(a, b spend) int { return int(a.at - b.at) })
	check := func(length, bound int64) {
		if got := most(spends, length); got > bound {
			t.Fatalf("seed %d: %d units of %d + %d were used in %dµs, more than %d", seed, got, count, h.Overdraft, length, bound)
		}
	}
	all := count + h.Overdraft
	switch kind.name {
	case "token bucket":
		for _, length := range []int64{1, 1_000, 100_000, 1_000_000, 3_000_000, 20_000_000} {
			check(length, all+7*length/1_000_000)
		}
	case "sliding window", "sliding log":
		check(kind.period, all)
	case "sliding counter":
		check(kind.period, 2*all-1)
	default:
		check(kind.period, 2*all)
	}
	for _, s := range spends {
		used += s.units
	}
	return used
}

// claim sends the next claim, or repeats a claim without an answer. Every fourth answer is
// lost.
func (p *spender) claim(t *testing.T, store *redisstore.Store, l *sluice.Limit, key sluice.Key, now int64, below func(int64) int64, spends *[]spend) {
	t.Helper()
	if p.open == nil {
		p.seq++
		c := driver.Claim{Limit: l, Key: key, Seq: p.seq, Birth: p.birth, Till: p.till, Spent: p.spent, Want: below(l.Capacity() + 1), Take: below(2) * below(3), Demand: below(5000)}
		if now >= p.till {
			p.left = 0 // the grant has ended
		}
		c.Returned = below(p.left + 1)
		p.left -= c.Returned
		p.open, p.during = &c, 0
	}
	var out [1]driver.Grant
	store.Grant(t.Context(), p.id, []driver.Claim{*p.open}, out[:])
	g := out[0]
	if g.Err != nil {
		t.Fatal(g.Err)
	}
	if below(4) == 0 {
		return
	}
	// In hand is what is in escrow, less what was spent since the claim was made.
	if p.open.Take > 0 && g.Decision.Allowed {
		*spends = append(*spends, spend{g.Decision.Receipt.At, p.open.Take}) // as charged, if the answer was lost before
	}
	p.birth, p.till, p.left, p.spent, p.open = g.Birth, g.Till, max(0, g.Held-p.during), p.during, nil
}

// TestCrowdedGrants: a store remembers 250 holders of a key. A further process gets exact decisions
// and no units, until one of them is gone.
func TestCrowdedGrants(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	l := hybrid(t, "l", sluice.TokenBucket{Rate: sluice.PerHour(10_000)}, sluice.Hybrid{Stranded: 1})
	for i := range uint64(250) {
		if got := g.claim(l, i+1, driver.Claim{Seq: 1, Want: 1}); got.Units != 1 || got.Holders != int(i+1) {
			t.Fatalf("holder %d: %+v", i, got)
		}
	}
	got := g.claim(l, 251, driver.Claim{Seq: 1, Take: 3, Want: 1})
	if !got.Decision.Allowed || got.Units != 0 || got.Held != 0 || got.Till != 0 || got.Free != 10_000-250-3 {
		t.Errorf("one holder too many: %+v", got)
	}
	if n := g.a.int(t, "STRLEN", "sluice{k}:l"); n > 17_000 {
		t.Errorf("the state takes %d bytes", n)
	}
	g.now += 2_000_000
	if got = g.claim(l, 251, driver.Claim{Seq: 2, Want: 1}); got.Units != 1 || got.Holders != 1 || got.Free != 10_000-250-1 { // the 3 units came back
		t.Errorf("after the others are gone: %+v", got)
	}
}

// TestMutatedHolders changes bytes of states with holders. Every call decides or fails; none of them
// ends the server or overwrites what it cannot read.
func TestMutatedHolders(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	rnd := rand.New(rand.NewPCG(3, 3))
	for _, kind := range grantKinds {
		if kind.name == "sliding log" {
			continue // its text is not a string; TestForeignStates has it
		}
		l := hybrid(t, "l", kind.algorithm(20), sluice.Hybrid{Stranded: 1})
		for range redistest.Times(t, 20) {
			if _, err := g.a.conn.Do(t.Context(), "FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			g.claim(l, 7, driver.Claim{Seq: 1, Take: 1, Want: 5})
			g.claim(l, 8, driver.Claim{Seq: 1, Want: 5})
			name := g.a.key(t, "*")
			reply, err := g.a.conn.Do(t.Context(), "GET", name)
			if err != nil {
				t.Fatal(err)
			}
			text := []byte(reply.(string))
			switch rnd.IntN(3) {
			case 0:
				text = text[:rnd.IntN(len(text))]
			case 1:
				text = append(text, text[rnd.IntN(len(text)):]...)
			default:
				for range 1 + rnd.IntN(3) {
					text[len(text)-1-rnd.IntN(len(text)*3/4)] = byte(rnd.IntN(256))
				}
			}
			if _, err := g.a.conn.Do(t.Context(), "SET", name, string(text)); err != nil {
				t.Fatal(err)
			}
			var out [1]driver.Grant
			_, err = g.store.Decide(t.Context(), sluice.Request{Limit: l, Key: g.key, Cost: 1, Peek: true})
			g.store.Grant(t.Context(), 9, []driver.Claim{{Limit: l, Key: g.key, Seq: 1, Want: 3, Take: 1}}, out[:])
			if err != nil && out[0].Err == nil {
				continue // a request without holders reads less
			}
			if out[0].Err != nil && !errors.Is(out[0].Err, sluice.ErrUnknownOutcome) {
				if kept, err := g.a.conn.Do(t.Context(), "GET", name); err != nil || kept != string(text) {
					t.Errorf("%s: %q was overwritten with %q, %v", kind.name, text, kept, err)
				}
			}
			if err := g.store.Reset(t.Context(), l, g.key); err != nil {
				t.Errorf("%s: reset at %q: %v", kind.name, text, err)
			}
		}
	}
}
