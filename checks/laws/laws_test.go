package laws

import (
	"flag"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
)

// TestMain checks each law more often than rapid's default, unless RAPID_CHECKS sets how often.
func TestMain(m *testing.M) {
	if os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set("rapid.checks", "500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// play compares a store with the oracle over a random schedule of takes, peeks, batches, ends of charges
// and resets.
func play(t *rapid.T, p *player) {
	p.back = rapid.IntRange(0, 2).Draw(t, "clock goes back") == 0
	for _, at := range p.accounts {
		p.back = p.back && !at.leases
	}
	for range rapid.IntRange(1, 60).Draw(t, "operations") {
		p.pass()
		for _, at := range p.accounts {
			at.forget(p.now)
		}
		at := rapid.SampledFrom(p.accounts).Draw(t, "account")
		switch op := rapid.IntRange(0, 19).Draw(t, "operation"); {
		case op < 11:
			p.one(at)
		case op < 14:
			p.batch()
		case op < 19:
			p.end()
		default:
			p.reset(at)
		}
	}
}

// named gives the limit of a subject another name, so that two subjects fit into one store.
func named(t *rapid.T, s subject, name string) subject {
	t.Helper()
	l, err := sluice.NewLimit(name, s.limit.Algorithm())
	if err != nil {
		t.Fatal(err)
	}
	s.limit = l
	return s
}

// TestStoresDecideAsTheOracle plays limits of each algorithm.
func TestStoresDecideAsTheOracle(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, rapid.MakeCheck(func(t *rapid.T) { play(t, newPlayer(t, k.draw(t))) }))
	}
}

// mixed plays limits of any two algorithms in one store, with batches over both.
func mixed(t *rapid.T) {
	first := rapid.SampledFrom(kinds).Draw(t, "first").draw(t)
	second := rapid.SampledFrom(kinds).Draw(t, "second").draw(t)
	play(t, newPlayer(t, named(t, first, "first"), named(t, second, "second")))
}

// Stores decide as the oracle, whatever calls are mixed.
func TestMixedCallsEqualTheOracle(t *testing.T) { rapid.Check(t, mixed) }

// Stores decide as the oracle, for any input of the fuzzer.
func FuzzOracle(f *testing.F) {
	seed(f)
	f.Fuzz(rapid.MakeFuzz(mixed))
}

// retry checks that a request passes again after RetryAfter, without other traffic, and not a microsecond
// earlier.
func retry(t *rapid.T, k kind) {
	s := k.draw(t)
	p := newPlayer(t, s)
	p.back = !s.leases && rapid.Bool().Draw(t, "clock goes back")
	at := p.accounts[0]
	for range rapid.IntRange(1, 30).Draw(t, "requests") {
		p.pass()
		r, _ := p.request(at)
		d := p.decide(r)
		if d.Allowed {
			continue
		}
		if (d.RetryAfter == 0) != (d.Reason == sluice.ReasonNever) {
			t.Fatalf("%v: only a request that never passes has no wait: %+v: %+v", s.limit, r, d)
		}
		if d.Reason == sluice.ReasonNever {
			continue
		}
		now := p.now
		r.Peek = true
		p.now = now + d.RetryAfter.Microseconds() - 1
		if early := p.decide(r); early.Allowed && !s.leases {
			t.Fatalf("%v: %+v at %d: %+v, but a microsecond before that %+v", s.limit, r, now, d, early)
		}
		p.now++
		p.high = max(p.high, p.now)
		if due := p.decide(r); !due.Allowed {
			t.Fatalf("%v: %+v at %d: %+v, but then %+v", s.limit, r, now, d, due)
		}
	}
}

func TestRetryAfterIsExactInStores(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, rapid.MakeCheck(func(t *rapid.T) { retry(t, k) }))
	}
}

func FuzzRetryAfter(f *testing.F) {
	seed(f)
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { retry(t, rapid.SampledFrom(kinds).Draw(t, "algorithm")) }))
}
