package algo_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// tokensOf returns the tokens of a token bucket, from its state.
func tokensOf(m *machine, now int64) *big.Rat {
	missing := new(big.Rat).SetInt(new(big.Int).SetUint64(m.s.V << 1 >> 1))
	missing.Quo(missing, rat(int64(m.p.Bucket.Den), 1))
	return missing.Sub(rat(m.p.Bucket.Burst, 1), lessRefill(missing, m.p.Bucket.Pace, now-m.s.T))
}

// unitsOf returns the units in a leaky bucket, from its state.
func unitsOf(m *machine, now int64) *big.Rat {
	work := new(big.Rat).SetInt(new(big.Int).SetUint64(m.s.V))
	work.Quo(work, rat(int64(m.p.Leaky.Den), 1))
	return lessRefill(work, m.p.Leaky.Pace, now-m.s.T)
}

// lessRefill takes from an amount what a pace refills in some time.
func lessRefill(amount *big.Rat, p algo.Pace, passed int64) *big.Rat {
	refill := new(big.Rat).Mul(rat(passed, 1), rat(int64(p.Num), int64(p.Den)))
	if refill.Cmp(amount) > 0 {
		return new(big.Rat)
	}
	return refill.Sub(amount, refill)
}

// TestRatesAreReduced reduces rates to their lowest terms and checks what fits.
func TestRatesAreReduced(t *testing.T) {
	const day = 86_400_000_000
	for _, step := range []struct {
		count, period int64
		want          algo.Pace
		units         uint64
		fits          bool
	}{
		{100, 60_000_000, algo.Pace{Num: 1, Den: 600_000}, 1 << 40, true},
		{1 << 30, day, algo.Pace{Num: 131072, Den: 10546875}, 2 << 30, true},
		{100 << 30, 30 * day, algo.Pace{Num: 262144, Den: 6328125}, 200 << 30, true},
		{1_000_000, day, algo.Pace{Num: 1, Den: 86400}, 2_000_000, true},
		{123_457, day, algo.Pace{Num: 123_457, Den: day}, 246_914, true},
		{1, 30 * day, algo.Pace{Num: 1, Den: 30 * day}, 2, true},
		{1, 30 * day, algo.Pace{Num: 1, Den: 30 * day}, 1 << 22, false},
		{100_000_000, 1_000_000, algo.Pace{Num: 100, Den: 1}, 1 << 53, true},
		{1, 1, algo.Pace{Num: 1, Den: 1}, algo.MaxTicks, true},
		{1, 1, algo.Pace{Num: 1, Den: 1}, algo.MaxTicks + 1, false},
		{1, 3, algo.Pace{Num: 1, Den: 3}, 1 << 63, false},
	} {
		p := algo.NewPace(step.count, step.period)
		if p != step.want || p.Fits(step.units) != step.fits {
			t.Errorf("%d/%dµs is %v, fits %d: %v", step.count, step.period, p, step.units, p.Fits(step.units))
		}
	}
}

// TestConcurrencyLatency: the latency goes half way to what each release reports, and is
// forgotten after a TTL.
func TestConcurrencyLatency(t *testing.T) {
	c := &algo.Concurrency{Max: 1, Queue: 9, TTL: 60_000_000, Latency: 1_000_000}
	w := make([]uint64, c.Words(10))
	now := int64(1_700_000_000_000_000)
	ask := func(member uint64) int64 {
		return c.Decide(w, algo.Request{Now: now, Cost: 1, Member: member}, true).Delay
	}
	check := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: delayed by %d, want %d", what, got, want)
		}
	}
	check("the first", ask(1), 0)
	check("the second", ask(2), 1_000_000)
	if !c.Release(w, now, 1, 3_000_000) {
		t.Error("the lease was not there")
	}
	check("after 3s", ask(3), 2_000_000)
	check("a renewal that may run now", ask(2), 0)
	if c.Release(w, now, 1, 3_000_000) {
		t.Error("a lease was released twice")
	}
	now += 60_000_000
	check("all leases have ended", ask(4), 0)
	check("and the latency is as it was", ask(5), 1_000_000)
	if c.Fresh(w, now) || !c.Fresh(w, now+60_000_000) {
		t.Error("fresh too early, or not at all")
	}
}

// TestKeysDeniedTooOftenAreBanned: a key that is denied too often is refused for a time, which attempts do not prolong.
func TestKeysDeniedTooOftenAreBanned(t *testing.T) {
	b := algo.Ban{After: 3, Within: 100, For: 1000}
	var s algo.State
	for _, step := range []struct {
		now    int64
		denied bool // one more denial
		banned int64
	}{
		{now: 10, denied: true},
		{now: 50, denied: true},
		{now: 110}, // the denials of 10 and 50 count until 110
		{now: 115, denied: true},
		{now: 120, denied: true},
		{now: 125, denied: true, banned: 1125},
		{now: 130, denied: true, banned: 1125},
		{now: 1124, banned: 1125},
		{now: 1125},
		{now: 1130, denied: true},
	} {
		if step.denied {
			s = b.Denied(s, step.now)
		}
		if got := b.Banned(s, step.now); got != step.banned {
			t.Errorf("at %d banned until %d, want %d", step.now, got, step.banned)
		}
	}
	if b.Fresh(s, 1229) || !b.Fresh(s, 1230) {
		t.Error("the last denial counts for too long or too short")
	}
	once := algo.Ban{After: 1, Within: 10, For: 10}
	if s := once.Denied(algo.State{}, 0); once.Banned(s, 9) != 10 || once.Banned(s, 10) != 0 {
		t.Error("a ban after one denial does not last its time")
	}
}

// TestBanFollowsAClockThatWasSetBack: after the jump, neither a ban nor a count lasts longer than
// its time.
func TestBanFollowsAClockThatWasSetBack(t *testing.T) {
	b := algo.Ban{After: 2, Within: 100, For: 1000}
	counting := algo.BanCount{Count: 1}.Pack()
	byHand := algo.BanCount{Level: algo.BanByHand, Forget: 1}.Pack()
	for _, step := range []struct {
		state algo.State
		now   int64
		want  int64
	}{
		{algo.State{T: 5000}, 4000, 5000},
		{algo.State{T: 5000}, 3000, 5000}, // by no more than the ban's time
		{algo.State{T: 5000}, 2999, 3999},
		{algo.State{T: 5000, V: counting}, 4800, 5000},
		{algo.State{T: 5000, V: counting}, 4799, 4899},
		{algo.State{T: 5000, V: byHand}, 3000, 5000}, // by its own time, a second
		{algo.State{T: 5_000_000, V: byHand}, 3_000_000, 5_000_000},
		{algo.State{T: 5_000_000, V: byHand}, 2_999_999, 3_999_999},
	} {
		if got := b.Settled(step.state, step.now); got != (algo.State{T: step.want, V: step.state.V}) {
			t.Errorf("%v at %d became %v, want %d", step.state, step.now, got, step.want)
		}
	}
}

// TestBanEscalates: bans in a row last longer each time, up to the last time. The row ends when
// the key was quiet for long enough.
func TestBanEscalates(t *testing.T) {
	const s = 1_000_000
	b := algo.Ban{After: 2, Within: s, For: 10 * s, Escalate: []time.Duration{time.Minute, time.Hour}, Forget: 100}
	now, state := int64(5*s), algo.State{}
	ban := func(want int64) {
		t.Helper()
		state = b.Denied(b.Denied(state, now), now+1)
		if end := b.Banned(state, now+1); end != now+1+want*s {
			t.Fatalf("at %d banned until %d, want %d s", now, end, want)
		}
		now = state.T
	}
	for _, want := range []int64{10, 60, 3600, 3600, 3600} {
		ban(want)
		if b.Fresh(state, now+100*s-1) || !b.Fresh(state, now+100*s) {
			t.Fatal("forgotten too early, or not at all")
		}
		now += 100*s - 1
	}
	now++
	ban(10)
	// Denials that lead to no ban keep the row alive while they count, and for Forget after that.
	now += 100*s - 1
	state = b.Denied(state, now)
	now += s + 100*s - 1
	ban(60)
	// A ban by hand begins a new row.
	state = algo.BannedByHand(now, 7*s)
	if c := algo.CountOf(state.V); b.Banned(state, now) != now+7*s || c.Level != algo.BanByHand || !b.Fresh(state, now+7*s) {
		t.Errorf("by hand: %+v, %+v", state, c)
	}
	now += 7 * s
	ban(10)
}

// TestBanProlonged: attempts prolong a ban only with Prolong, and never a ban by hand.
func TestBanProlonged(t *testing.T) {
	b := algo.Ban{After: 1, Within: 10, For: 1000, Escalate: []time.Duration{2 * time.Millisecond}, Forget: 1, Prolong: true}
	state := b.Denied(algo.State{}, 0)
	if state = b.Attempted(state, 400); state.T != 1400 {
		t.Errorf("the first ban ends at %d, want 1400", state.T)
	}
	if state = b.Attempted(state, 1400); state.T != 1400 {
		t.Errorf("an attempt after the ban moved it to %d", state.T)
	}
	state = b.Denied(state, 1400)
	if state = b.Attempted(state, 1500); state.T != 3500 {
		t.Errorf("the second ban ends at %d, want 3500", state.T)
	}
	if hand := algo.BannedByHand(0, 100); b.Attempted(hand, 50) != hand {
		t.Error("an attempt moved a ban by hand")
	}
	b.Prolong = false
	if b.Attempted(state, 1600) != state {
		t.Error("an attempt moved a ban that is not to be")
	}
}

// TestBanByHandOnly: terms without a number of denials ban nobody.
func TestBanByHandOnly(t *testing.T) {
	var b algo.Ban
	for now := range int64(10) {
		if s := b.Denied(algo.State{}, now); s != (algo.State{}) {
			t.Fatalf("a denial was counted: %+v", s)
		}
	}
}

// TestBanCountPacks: every possible content of a state survives packing.
func TestBanCountPacks(t *testing.T) {
	for _, c := range []algo.BanCount{
		{},
		{Count: 1},
		{Count: algo.MaxBanDenials},
		{Level: 1},
		{Level: algo.BanByHand, Forget: 1},
		{Count: algo.MaxBanDenials, Level: algo.MaxBanTimes + 1, Forget: algo.MaxBanForget},
	} {
		if got := algo.CountOf(c.Pack()); got != c {
			t.Errorf("%+v came back as %+v", c, got)
		}
	}
}

// TestCancelUnderOtherNumbers never gives back units on which later reservations rely, even if
// the rate changed in between.
func TestCancelUnderOtherNumbers(t *testing.T) {
	const ms = 1000
	for _, step := range []struct {
		name     string
		from, to int64 // units a second
		later    bool  // another reservation relies on it
		at       int64 // when it is cancelled
		wait     int64 // for the next two units
	}{
		// At a higher rate, waiting reservations keep their moments, and it is not known which rely on
		// it: nothing comes back.
		{name: "the last one", from: 5, to: 10, wait: 600 * ms},
		{name: "the last one, slower", from: 10, to: 5, wait: 400 * ms},
		{name: "one below", from: 5, to: 10, later: true, wait: 1000 * ms},
		{name: "one below, slower", from: 10, to: 5, later: true, wait: 1200 * ms},
		{name: "later", from: 5, to: 10, at: 200 * ms, wait: 400 * ms},
	} {
		m := newMachine(newBucket(step.from, 1_000_000, 2, 2))
		take := func(now int64) (algo.Charge, int64) {
			req := algo.Request{Now: now, Cost: 2, MaxWait: 1 << 40}
			res := m.decide(req, true)
			return charge(req, res), res.Delay
		}
		take(0)
		c, _ := take(0)
		if step.later {
			take(0)
		}
		from := m.p.Bucket
		m.convert(newBucket(step.to, 1_000_000, 2, 2), step.at)
		m.cancel(step.at, m.p.Bucket.ConvertCharge(&from, c, step.at))
		if _, wait := take(step.at); wait != step.wait {
			t.Errorf("%s: two units wait for %d µs, want %d", step.name, wait, step.wait)
		}
	}
}

// TestLogWithoutRoom: if there is no room for another entry, a settlement of a reservation
// without cost is counted with the latest entry.
func TestLogWithoutRoom(t *testing.T) {
	l := &algo.SlidingLog{Count: 10, Length: 100}
	w := make([]uint64, l.Words(1))
	l.Decide(w, algo.Request{Now: 1000, Cost: 1}, true)
	free := l.Decide(w, algo.Request{Now: 1050}, false)
	l.Settle(w, 1060, algo.Charge{At: free.At}, 4)
	for now, remain := range map[int64]int64{1060: 5, 1100: 5, 1149: 5, 1150: 10} {
		if res := l.Decide(w, algo.Request{Now: now}, false); res.Remaining != remain {
			t.Errorf("at %d %d remain, want %d", now, res.Remaining, remain)
		}
	}
}

// TestWarmCancelOnceActed cancels a reservation that has acted. A later reservation was given
// back before, which left the wait unchanged but not the warmth. So the moment of the reservation
// does not follow from the state.
func TestWarmCancelOnceActed(t *testing.T) {
	b := algo.NewWarmBucket(algo.NewPace(1, 1000), 1000, 8, 8, 10_000, 3)
	for name, end := range map[string]func(w []uint64, c algo.Charge){
		"cancel": func(w []uint64, c algo.Charge) { b.Cancel(w, 50_000, c) },
		"settle": func(w []uint64, c algo.Charge) { b.Settle(w, 50_000, c, 0) },
	} {
		w := make([]uint64, algo.WarmWords)
		first := algo.Request{Now: 50_000, Cost: 5}
		took := b.Decide(w, first, true)
		behind := algo.Request{Now: 50_000, Cost: 5, MaxWait: 20_000}
		waits := b.Decide(w, behind, true)
		if !took.Allowed || took.Delay != 0 || !waits.Allowed || waits.Delay != 10_000 {
			t.Fatalf("%s: %+v, then %+v", name, took, waits)
		}
		end(w, charged(behind, waits))
		look := algo.Request{Now: 50_001, Cost: 1}
		before := b.Decide(w, look, false)
		b.Cancel(w, 50_001, charged(first, took))
		if after := b.Decide(w, look, false); after != before {
			t.Errorf("%s: %+v was given back after it had acted: %+v", name, before, after)
		}
	}
}

func charged(req algo.Request, res algo.Result) algo.Charge {
	return algo.Charge{Cost: req.Cost, Floor: req.Floor, At: res.At, Over: res.Over}
}
