package decisions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/redisstore"
)

// A grantKind is an algorithm whose units are granted, and other forms of it, to which its numbers may change.
type grantKind struct {
	name string
	grantForm
	others []grantForm
	larger grantForm // for counts that are 40 times larger, or none
}

// A grantForm is an algorithm with its oracle, for some count of units.
type grantForm struct {
	period    int64
	algorithm func(count int64) sluice.Algorithm
	fresh     func(count int64) oracle.State
}

// bucketForm returns a bucket that is refilled with some units in a period.
func bucketForm(units, period int64) grantForm {
	return grantForm{
		period, func(n int64) sluice.Algorithm {
			return sluice.TokenBucket{Rate: sluice.Per(units, length(period)), Burst: n, Debt: 9}
		}, func(n int64) oracle.State { return oracle.NewBucket(units, period, n, 9) },
	}
}

func windowForm(period int64, opened bool) grantForm {
	return grantForm{
		period, func(n int64) sluice.Algorithm {
			return sluice.FixedWindow{Rate: sluice.Per(n, length(period)), Opened: opened}
		}, func(n int64) oracle.State { return oracle.NewWindow(n, period, opened, false) },
	}
}

func cellsForm(period int64, cells int) grantForm {
	return grantForm{
		period, func(n int64) sluice.Algorithm {
			return sluice.SlidingWindow{Rate: sluice.Per(n, length(period)), Cells: cells}
		}, func(n int64) oracle.State { return oracle.NewCells(n, period, int64(cells), false) },
	}
}

func counterForm(period int64) grantForm {
	return grantForm{
		period, func(n int64) sluice.Algorithm { return sluice.SlidingCounter{Rate: sluice.Per(n, length(period))} },
		func(n int64) oracle.State { return oracle.NewCounter(n, period, false) },
	}
}

func logForm(period int64) grantForm {
	return grantForm{
		period, func(n int64) sluice.Algorithm { return sluice.SlidingLog{Rate: sluice.Per(n, length(period))} },
		func(n int64) oracle.State { return oracle.NewLog(n, period, 0, false) },
	}
}

func length(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// dayForm is a window of the calendar's days.
var dayForm = grantForm{
	86_400_000_000, func(n int64) sluice.Algorithm {
		return sluice.FixedWindow{Rate: sluice.PerDay(n), Calendar: sluice.CalendarDay}
	}, func(n int64) oracle.State { return oracle.NewCalendar(n, longestDay, daysAround...) },
}

// daysAround are the begins of the days around the time at which walks begin.
var daysAround = func() (begins []int64) {
	const day = 86_400_000_000
	for i := range int64(10_000) {
		begins = append(begins, (20_254-1000+i)*day)
	}
	return begins
}()

// longestDay is the length of the longest day of any time zone, as the store has it.
var longestDay = sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1), Calendar: sluice.CalendarDay}).Params().Fixed.Length

var grantKinds = []grantKind{
	{"token bucket", bucketForm(7, 1_000_000), []grantForm{bucketForm(5, 1_000_000), bucketForm(300, 1_000_000), bucketForm(1, 3_000_000)}, bucketForm(280, 1_000_000)},
	{"fixed window", windowForm(3_000_000, false), []grantForm{windowForm(1_000_000, false), windowForm(7_000_000, true), dayForm}, windowForm(3_000_000, false)},
	{"fixed window opened by a request", windowForm(3_000_000, true), []grantForm{windowForm(1_000_000, true), windowForm(7_000_000, false), dayForm}, windowForm(3_000_000, true)},
	{"fixed window of a calendar", dayForm, []grantForm{windowForm(3_000_000, true), windowForm(1_000_000, false)}, dayForm},
	{"sliding window", cellsForm(3_000_000, 5), []grantForm{cellsForm(1_000_000, 4), cellsForm(6_000_000, 5), cellsForm(3_000_000, 1)}, cellsForm(3_000_000, 5)},
	{"sliding counter", counterForm(3_000_000), []grantForm{counterForm(1_000_000), counterForm(7_000_000)}, grantForm{}},
	{"sliding log", logForm(3_000_000), []grantForm{logForm(1_000_000), logForm(7_000_000)}, logForm(3_000_000)},
}

// A grantWalk sends random claims and exact requests about one key to a store and to the oracle of
// its escrow, and compares all that they answer.
type grantWalk struct {
	*testing.T
	kind     grantKind
	rnd      *rand.Rand
	a        *arena
	prefix   string
	store    *redisstore.Store
	key      sluice.Key
	versions []grantVersion
	// The clock goes back no further than low. high is the latest time.
	now, low, high int64

	escrow  oracle.Escrow
	absent  bool // the store has no state, so that it has no numbers either
	holders []walkHolder
	charges []walkCharge
	notes   []string
}

// A grantVersion is the limit with some numbers.
type grantVersion struct {
	count, period int64
	limit         *sluice.Limit
	exact         *sluice.Limit
	fresh         oracle.State
	terms, noTerm oracle.Terms
}

// A walkHolder is a process, with the last answer to it.
type walkHolder struct {
	id, seq uint64
	last    driver.Claim
	birth   uint64
	till    int64
	held    int64
}

// A walkCharge is what an exact request has charged.
type walkCharge struct {
	charge sluice.Charge
	oracle oracle.Charge
}

func newGrantWalk(t *testing.T, a *arena, kind grantKind, seed uint64) *grantWalk {
	t.Helper()
	w := &grantWalk{T: t, kind: kind, rnd: rand.New(rand.NewPCG(seed, 7)), key: sluice.StringKey("k"), now: 1_750_000_000_000_000 + int64(seed)*999_983}
	w.low = w.now
	client := redistest.WithClock(plainClient{a.conn}, func() int64 { return w.now })
	client = changed(client, unhurried(seed)...)
	a.count++
	w.a, w.prefix = a, fmt.Sprint("walk", a.count)
	var err error
	w.store, err = redisstore.New(client, redisstore.Options{Prefix: w.prefix, Clock: func() int64 { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	counts, forms := []int64{w.one(1, 2, 3, 5, 8, 12, 20, 1000, 1+w.below(60))}, []grantForm{kind.grantForm}
	if w.below(3) == 0 {
		counts, forms = append(counts, w.one(1, 2, 7, counts[0]+1, 1+w.below(30))), append(forms, kind.grantForm)
	}
	if w.below(3) > 0 {
		counts, forms = append(counts, w.one(counts[0], 1+w.below(30))), append(forms, kind.others[w.below(int64(len(kind.others)))])
	}
	if kind.larger.fresh != nil && w.below(4) == 0 {
		counts, forms = append(counts, 40*counts[0]), append(forms, kind.larger)
	}
	for i, n := range counts {
		form := forms[i]
		h := sluice.Hybrid{
			Sync: 10 * time.Millisecond, Life: time.Duration(w.one(40_000, 100_000, 2_000_000, 60_000_000)) * time.Microsecond,
			Stranded: float64(w.one(1_000_000, 1_000_000, 500_000, 1+w.below(1_000_000))) / 1e6,
		}
		if w.below(3) == 0 {
			h.Overdraft = w.below(n + 1)
		}
		if float64(n)*h.Stranded < 1 {
			h.Stranded = 1
		}
		l, fresh := hybrid(t, "l", form.algorithm(n), h), form.fresh(n)
		w.versions = append(w.versions, grantVersion{
			count: n, period: form.period, limit: l, exact: sluice.MustLimit("l", form.algorithm(n)), fresh: fresh,
			terms:  oracle.Terms{Cap: l.Escrow(), Overdraft: h.Overdraft, Life: h.Life.Microseconds(), Numbers: fresh},
			noTerm: oracle.Terms{Numbers: fresh},
		})
	}
	w.escrow, w.absent = oracle.NewEscrow(w.versions[0].fresh), true
	for i := range 1 + w.below(4) {
		w.holders = append(w.holders, walkHolder{id: uint64(i+1) << (13 * i)})
	}
	return w
}

func (w *grantWalk) below(n int64) int64 { return w.rnd.Int64N(max(n, 1)) }

func (w *grantWalk) one(of ...int64) int64 { return of[w.below(int64(len(of)))] }

func (w *grantWalk) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf("%d: ", w.now)+fmt.Sprintf(format, args...))
}

// walk goes some steps.
func (w *grantWalk) walk(steps int) {
	w.Helper()
	for range steps {
		w.pass()
		v := &w.versions[w.below(int64(len(w.versions)))]
		switch w.below(16) {
		case 0:
			w.reset(v)
		case 1, 2, 3:
			w.decide(v)
		case 4:
			w.batch(v)
		case 5, 6:
			w.end()
		default:
			w.claim(v)
		}
		if w.Failed() {
			w.Fatalf("the last steps:\n%s", strings.Join(w.notes[max(0, len(w.notes)-30):], "\n"))
		}
	}
}

// pass lets time pass, or turns the clock back.
func (w *grantWalk) pass() {
	if e := w.escrow.At(w.now); e.State.Fresh(w.now) {
		w.low = w.now // the store may have forgotten the state
		if len(e.Holders) == 0 && e.Others == 0 && len(w.versions) > 1 && !w.absent {
			w.forget()
		}
	}
	w.high = max(w.high, w.now)
	if w.below(40) == 0 {
		// First a claim that is always written: the oracle forgets no expiry that it has seen.
		w.send(&w.versions[0], &walkHolder{id: 1 << 60, seq: uint64(len(w.notes))}, driver.Claim{Seq: 1 + uint64(len(w.notes))})
		back := w.one(1, 1000, w.below(w.kind.period), w.kind.period, w.below(4*w.kind.period))
		if len(w.versions) > 1 { // the oracle does not convert a state under such a clock
			for _, v := range w.versions {
				w.low = max(w.low, w.high-v.period)
			}
		}
		w.now = max(w.low, w.now-back)
		w.charges = nil
		w.note("the clock was set back")
		w.send(&w.versions[0], &walkHolder{id: 1 << 61, seq: uint64(len(w.notes))}, driver.Claim{Seq: 1 + uint64(len(w.notes))})
		return
	}
	w.now += w.one(0, 0, 1, 1, 1000, 39_999, w.below(100_000), w.below(100_000), w.below(w.kind.period/3), w.below(3*w.kind.period)*w.below(2)*w.below(2))
}

// state returns the escrow as a version of the limit finds it.
func (w *grantWalk) state(v *grantVersion) oracle.Escrow {
	if w.absent {
		return oracle.NewEscrow(v.fresh)
	}
	return w.escrow.AtTerms(w.now, v.terms)
}

// keep keeps what the store has after a step.
func (w *grantWalk) keep(e oracle.Escrow) {
	w.escrow, w.absent = e, w.absent && len(e.Holders) == 0 && e.Others == 0 && e.State.Fresh(w.now)
}

// forget deletes the state, which is fresh. The store may have done so.
func (w *grantWalk) forget() {
	w.Helper()
	w.note("forgotten")
	if err := w.store.Reset(context.Background(), w.versions[0].exact, w.key); err != nil {
		w.Fatal(err)
	}
	w.escrow, w.absent, w.charges = oracle.NewEscrow(w.versions[0].fresh), true, nil
}

func (w *grantWalk) reset(v *grantVersion) {
	w.Helper()
	if w.below(4) > 0 {
		return
	}
	w.note("reset")
	if err := w.store.Reset(context.Background(), v.exact, w.key); err != nil {
		w.Fatal(err)
	}
	for _, other := range w.versions {
		if oracle.SameNumbers(w.escrow.State, other.fresh) {
			w.escrow = w.escrow.Reset(w.now, other.fresh) // holders keep the numbers
			break
		}
	}
	w.absent = len(w.escrow.Holders) == 0 && w.escrow.Others == 0
	w.charges = nil
}

// resultOf returns a decision as the oracle has it.
func resultOf(d sluice.Decision) oracle.Result {
	return oracle.Result{
		Allowed: d.Allowed, Reason: oracle.Reason(d.Reason), Remaining: d.Remaining,
		Delay: d.Delay.Microseconds(), RetryAfter: d.RetryAfter.Microseconds(), ResetAfter: d.ResetAfter.Microseconds(),
	}
}

// decide decides a request exactly: with or without terms.
func (w *grantWalk) decide(v *grantVersion) {
	w.Helper()
	l, terms := v.limit, v.terms
	if w.below(3) == 0 {
		l, terms = v.exact, v.noTerm
	}
	r := sluice.Request{Limit: l, Key: w.key, Cost: w.one(0, 1, 1, 1, 2, 1+w.below(v.count), v.count, v.count+1), Floor: w.one(0, 0, 0, w.below(v.count+1)), Peek: w.below(4) == 0}
	if w.below(2) == 0 {
		r.MaxWait = -1 // of a holder, if the limit has terms
	}
	// A log forgets units that decide nothing beside a debt, and the oracle does not.
	_, log := l.Algorithm().(sluice.SlidingLog)
	r.Debit = !log && len(w.versions) == 1 && w.below(4) == 0
	r.Overdraw = !log && !r.Debit && w.below(4) == 0
	d, err := w.store.Decide(context.Background(), r)
	if err != nil {
		w.Fatal(err)
	}
	q := oracle.Request{Now: w.now, Cost: r.Cost, Floor: r.Floor, Debit: r.Debit && !r.Peek, Overdraw: r.Overdraw}
	if l == v.limit {
		q.MaxWait = int64(r.MaxWait)
	}
	e := w.state(v)
	got := resultOf(d)
	if r.Peek {
		want := e.Peek(q, terms, got)
		w.note("peek %d/%d of %d: %+v", r.Cost, r.Floor, v.count, got)
		if got != want {
			w.Errorf("a peek for %d: got %+v, want %+v", r.Cost, got, want)
		}
		return
	}
	want, charge, after := e.Decide(q, terms, got)
	w.note("decide %d/%d of %d, a debit %t: %+v", r.Cost, r.Floor, v.count, r.Debit, got)
	if got != want {
		w.Errorf("a request for %d: got %+v, want %+v", r.Cost, got, want)
	}
	w.keep(after)
	if want.Allowed && r.Cost > 0 {
		w.charges = append(w.charges, walkCharge{r.Charge(&d), charge})
	}
}

// batch decides two requests for the key, and one for another.
func (w *grantWalk) batch(v *grantVersion) {
	w.Helper()
	other := sluice.MustLimit("other", v.exact.Algorithm())
	rs := []sluice.Request{
		{Limit: v.limit, Key: w.key, Cost: 1 + w.below(v.count)},
		{Limit: other, Key: w.key, Cost: 1, Peek: true},
		{Limit: v.limit, Key: w.key, Cost: 1 + w.below(v.count)},
	}
	if w.below(2) == 0 {
		rs = rs[:2]
	}
	out := make([]sluice.Decision, len(rs))
	if err := w.store.DecideAll(context.Background(), rs, out); err != nil {
		w.Fatal(err)
	}
	e, all := w.state(v), true
	for i := range rs {
		if rs[i].Limit == other {
			all = all && out[i].Allowed
			continue
		}
		var want oracle.Result
		want, _, e = e.Decide(oracle.Request{Now: w.now, Cost: rs[i].Cost}, v.terms, resultOf(out[i]))
		all = all && want.Allowed
		w.note("in a batch, %d of %d: %+v", rs[i].Cost, v.count, out[i])
		if out[i].Allowed != want.Allowed {
			w.Errorf("in a batch, %d: got %+v, want %+v", rs[i].Cost, out[i], want)
		}
	}
	if all {
		w.keep(e)
		return
	}
	for range 2 { // a denied request is decided again on its own
		w.send(v, &walkHolder{id: 1 << 62, seq: uint64(len(w.notes))}, driver.Claim{Seq: uint64(len(w.notes)), Take: v.count + 1})
	}
}

// end settles or cancels a charge. Charges under other numbers stay.
func (w *grantWalk) end() {
	w.Helper()
	if len(w.charges) == 0 {
		return
	}
	i := w.below(int64(len(w.charges)))
	c := w.charges[i]
	w.charges = slices.Delete(w.charges, int(i), int(i)+1)
	for _, v := range w.versions {
		if (c.charge.Limit == v.limit || c.charge.Limit == v.exact) && !oracle.SameNumbers(w.escrow.State, v.fresh) {
			return
		}
	}
	var err error
	switch w.below(5) {
	case 0, 1:
		w.note("cancel %d at %d", c.charge.Cost, c.charge.Receipt.At)
		err = w.store.Cancel(context.Background(), c.charge)
		w.escrow = w.escrow.Cancel(w.now, c.oracle)
		if errors.Is(err, sluice.ErrActed) {
			err = nil
		}
	case 2:
		give := 1 + w.below(2*c.charge.Cost+2)
		w.note("give %d back", give)
		newest := sluice.Charge{Limit: c.charge.Limit, Key: c.charge.Key, Cost: give, Receipt: sluice.Receipt{At: oracle.Newest}}
		err = w.store.Settle(context.Background(), newest, 0)
		w.escrow = w.escrow.Settle(w.now, oracle.Charge{Cost: give, At: oracle.Newest}, 0)
	default:
		actual := w.one(0, w.below(c.charge.Cost+1), c.charge.Cost+w.below(5))
		w.note("settle %d at %d as %d", c.charge.Cost, c.charge.Receipt.At, actual)
		err = w.store.Settle(context.Background(), c.charge, actual)
		w.escrow = w.escrow.Settle(w.now, c.oracle, actual)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// claim makes up a claim: mostly of a process that counts right.
func (w *grantWalk) claim(v *grantVersion) {
	w.Helper()
	h := &w.holders[w.below(int64(len(w.holders)))]
	switch w.below(10) {
	case 0: // the answer was lost, or came late
		if h.seq > 0 {
			w.send(v, h, h.last)
			return
		}
	case 1:
		if h.seq > 1 {
			w.send(v, h, driver.Claim{Seq: 1 + uint64(w.below(int64(h.seq-1))), Take: 1, Want: 1})
			return
		}
	}
	n := v.count
	h.seq += 1 + uint64(w.below(2))
	c := driver.Claim{Seq: h.seq, Birth: h.birth, Till: h.till, Demand: w.one(0, 1, 1000, 1000, 5000, w.below(1_000_000), 1<<60)}
	if h.birth > 0 {
		c.Spent = w.below(h.held + 1)
		c.Returned = w.one(0, 0, w.below(h.held-c.Spent+1))
	}
	switch w.below(20) {
	case 0: // the process has started again
		c.Birth, c.Till, c.Spent, c.Returned = 0, 0, 0, 0
	case 1: // the server has forgotten the grant
		c.Birth, c.Till, c.Spent = 1+uint64(w.below(int64(h.seq))), w.now+w.one(-1, 0, 1, 1000), w.below(n+1)
	case 2: // credit
		c.Birth, c.Till, c.Spent = 0, 0, w.below(n+1)
	}
	if w.below(3) == 0 {
		c.Take = w.one(1, 1, 2, 1+w.below(n+1))
	}
	c.Floor = w.one(0, 0, 0, w.below(n+1))
	if w.below(4) > 0 {
		c.Want, c.Least = w.one(1, 2, n, 1+w.below(2*n)), w.one(0, 1, 1, w.below(n+1))
	}
	w.send(v, h, c)
}

// send sends a claim to the store and to the oracle.
func (w *grantWalk) send(v *grantVersion, h *walkHolder, c driver.Claim) {
	w.Helper()
	c.Limit, c.Key = v.limit, w.key
	h.last = c
	var out [1]driver.Grant
	began := time.Now()
	w.store.Grant(context.Background(), h.id, []driver.Claim{c}, out[:])
	g := out[0]
	if g.Err != nil {
		w.Fatal(g.Err)
	}
	oc := oracle.Claim{
		Seq: c.Seq, Birth: c.Birth, Till: c.Till, Spent: c.Spent, Returned: c.Returned, Take: c.Take, Floor: c.Floor,
		Want: c.Want, Least: c.Least, Demand: c.Demand,
	}
	before := w.state(v)
	want, after := before.Claim(w.now, h.id, oc, v.terms, resultOf(g.Decision))
	w.note("%d of %d claims %+v: %+v", h.id, v.count, oc, g)
	got := oracle.Grant{
		Stale: g.Stale, Units: g.Units, Held: g.Held, Birth: g.Birth, Now: g.Now, Till: g.Till,
		Free: g.Free, Escrow: g.Escrow, Holders: g.Holders, Demands: g.Demands, Others: g.Others,
	}
	result, repeated := want.Result, want.Repeated
	want.Result, want.Charge, want.Repeated = oracle.Result{}, oracle.Charge{}, false
	if got != want {
		w.Errorf("holder %d of %d claims %+v:\ngot  %+v\nwant %+v", h.id, v.count, oc, got, want)
	}
	switch decision := resultOf(g.Decision); {
	case g.Stale:
	case repeated && c.Take > 0:
		if decision.Allowed != result.Allowed || !decision.Allowed && decision.RetryAfter == 0 && decision.Reason == oracle.Limited {
			w.Errorf("repeated: got %+v, want %+v", decision, result)
		}
	case !repeated && decision != result:
		w.Errorf("the decision about %d: got %+v, want %+v", c.Take, decision, result)
	}
	w.keep(after)
	if !g.Stale && !repeated {
		w.lasts(began)
		h.birth, h.till, h.held = g.Birth, g.Till, g.Held
	}
}

// lasts checks that the state that was written at a time is kept while units are in escrow, and until it would be fresh if
// all of them were used.
func (w *grantWalk) lasts(written time.Time) {
	w.Helper()
	e := w.escrow.At(w.now)
	last := w.now
	for _, h := range e.Holders {
		last = max(last, h.Till)
	}
	if e.Units() == 0 || w.below(4) > 0 {
		return
	}
	all := oracle.Escrow{State: e.State}
	for _, h := range e.Holders {
		h.Till = min(h.Till, last)
		all.Holders = append(all.Holders, h)
	}
	least := last - w.now
	if booked := all.At(last).State; !booked.Fresh(last) {
		least = max(least, resetOf(booked, last)-w.now)
	}
	left := w.a.int(w.T, "PTTL", w.a.key(w.T, w.prefix+"{*l")) - 1e14
	if left*1000+time.Since(written).Microseconds() < least {
		w.Errorf("the state is kept for %dms, and matters for %dµs", left, least)
	}
}

// resetOf returns when a state is fresh, or up to a thousandth of the time before.
func resetOf(s oracle.State, now int64) int64 {
	step := int64(1)
	for !s.Fresh(now + step) {
		step *= 2
	}
	low, high := step/2, step
	for high-low > 1 {
		if mid := (low + high) / 2; s.Fresh(now + mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return now + high
}

// TestGrantsEqualOracle: whatever processes report, return and claim, and whatever is decided
// exactly in between, the store answers what the definition of the escrow says.
func TestGrantsEqualOracle(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for _, kind := range grantKinds {
		t.Run(kind.name, func(t *testing.T) {
			for seed := range uint64(redistest.Times(t, 4)) {
				newGrantWalk(t, a, kind, seed).walk(120)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}
