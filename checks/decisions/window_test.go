package decisions

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the zones of this release of Go, on every system

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/storetest"
)

// TestWindowsDecideAsInMemory uses windows, cells and counters at random, in memory
// and on a server, and wants equal answers. The limits of a row share one name, and
// take turns: each turn is a live change of numbers, or of the algorithm.
func TestWindowsDecideAsInMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(server))
	const month = 30 * 24 * time.Hour
	const gigabyte = 1 << 30
	zoned := func(n int64, unit sluice.CalendarUnit, zone string) sluice.FixedWindow {
		t.Helper()
		z, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		return sluice.FixedWindow{Rate: sluice.PerDay(n), Calendar: unit, Zone: z}
	}
	rates := map[string]sluice.Rate{
		"small":     sluice.PerSecond(5),
		"rare":      sluice.Per(1, month),
		"uneven":    sluice.PerDay(123_457),
		"volume":    sluice.PerDay(gigabyte),
		"large":     sluice.Per(100*gigabyte, month),
		"fast":      sluice.PerSecond(100_000_000),
		"prime":     sluice.Per(7919, 104_729*time.Microsecond),
		"long":      sluice.Per(1_000_003, 1_000_000_007*time.Microsecond),
		"least":     sluice.Per(1, time.Millisecond),
		"century":   sluice.Per(549_755_813_881, 100*365*24*time.Hour),
		"precision": sluice.Per(1<<39-1, 2_591_999_999_999*time.Microsecond),
	}
	rows := map[string][]sluice.Algorithm{
		"aligned in a microsecond": {sluice.FixedWindow{Rate: sluice.Per(1, time.Microsecond)}},
		"aligned with most":        {sluice.FixedWindow{Rate: sluice.Per(1<<53-2, time.Minute)}},
		"cells of a microsecond":   {sluice.SlidingWindow{Rate: sluice.Per(3, 256*time.Microsecond), Cells: 256}},
		"cells with most":          {sluice.SlidingWindow{Rate: sluice.Per(1<<53-2, time.Minute), Cells: 6}},
		"plain windows": {
			sluice.FixedWindow{Rate: sluice.PerSecond(5)},
			sluice.FixedWindow{Rate: sluice.PerSecond(9)},
			sluice.FixedWindow{Rate: sluice.Per(5, 3*time.Second)},
			sluice.FixedWindow{Rate: sluice.PerSecond(5), Opened: true},
			sluice.FixedWindow{Rate: sluice.Per(7, 2*time.Second), Opened: true},
		},
		"days": {
			zoned(5, sluice.CalendarDay, "UTC"),
			zoned(6, sluice.CalendarDay, "UTC"),
			zoned(5, sluice.CalendarDay, "Europe/Berlin"),
			zoned(5, sluice.CalendarDay, "Antarctica/Troll"),
			zoned(4, sluice.CalendarDay, "Pacific/Apia"),
			zoned(4, sluice.CalendarDay, "America/Santiago"),
		},
		"calendars and windows": {
			zoned(50, sluice.CalendarDay, "Australia/Lord_Howe"),
			zoned(50, sluice.CalendarWeek, "America/New_York"),
			zoned(70, sluice.CalendarMonth, "America/Havana"),
			sluice.FixedWindow{Rate: sluice.PerDay(60)},
			sluice.FixedWindow{Rate: sluice.Per(60, 26*time.Hour), Opened: true},
			sluice.FixedWindow{Rate: sluice.Per(60, 40*24*time.Hour), Opened: true},
		},
		"other cells": {
			sluice.SlidingWindow{Rate: sluice.PerSecond(20), Cells: 1},
			sluice.SlidingWindow{Rate: sluice.PerSecond(20), Cells: 10},
			sluice.SlidingWindow{Rate: sluice.PerSecond(30), Cells: 10},
			sluice.SlidingWindow{Rate: sluice.PerSecond(20), Cells: 250},
			sluice.SlidingWindow{Rate: sluice.Per(20, 2560*time.Millisecond), Cells: 256},
		},
		"other counters": {
			sluice.SlidingCounter{Rate: sluice.PerSecond(20)},
			sluice.SlidingCounter{Rate: sluice.PerSecond(13)},
			sluice.SlidingCounter{Rate: sluice.Per(20, 777*time.Millisecond)},
			sluice.SlidingCounter{Rate: sluice.Per(1<<39-1, 9_999_999_967*time.Microsecond)},
		},
		"other algorithms": {
			sluice.FixedWindow{Rate: sluice.PerSecond(20)},
			sluice.SlidingWindow{Rate: sluice.PerSecond(20)},
			sluice.SlidingCounter{Rate: sluice.PerSecond(20)},
			zoned(20, sluice.CalendarDay, "Asia/Kathmandu"),
		},
	}
	for name, r := range rates {
		rows["aligned "+name] = []sluice.Algorithm{sluice.FixedWindow{Rate: r}}
		rows["opened "+name] = []sluice.Algorithm{sluice.FixedWindow{Rate: r, Opened: true}}
		rows["cells "+name] = []sluice.Algorithm{sluice.SlidingWindow{Rate: r}}
		rows["counter "+name] = []sluice.Algorithm{sluice.SlidingCounter{Rate: r}}
	}
	for name, row := range maps.Clone(rows) {
		counting := make([]sluice.Algorithm, len(row))
		for i, a := range row {
			counting[i] = withDenied(a)
		}
		rows[name+", attempts"] = counting
		if len(row) > 1 {
			rows[name+", some attempts"] = append(counting[:2:2], row...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Run(name, func(t *testing.T) {
			w := newWindowWalk(t, client, name, rows[name])
			for range redistest.Times(t, 10) * len(rows[name]) {
				w.step()
			}
			t.Logf("%d requests passed, %d did not; %d ends", w.passed, w.denied, w.ends)
		})
	}
}

// withDenied returns a window that counts denied attempts too.
func withDenied(a sluice.Algorithm) sluice.Algorithm {
	switch a := a.(type) {
	case sluice.FixedWindow:
		a.CountDenied = true
		return a
	case sluice.SlidingWindow:
		a.CountDenied = true
		return a
	case sluice.SlidingCounter:
		a.CountDenied = true
		return a
	}
	return a
}

// windowWalk sends two stores the same requests.
type windowWalk struct {
	*testing.T
	rng    *rand.Rand
	clock  *storetest.Clock
	stores [2]sluice.Store // memory, the server
	limits []*sluice.Limit
	units  []int64 // the period of each, in microseconds
	ahead  int64   // how far this computer's clock is ahead of the server's
	keys   []sluice.Key
	// kept are the limits that each state may be kept under.
	kept    map[windowState][]*sluice.Limit
	charges []sluice.Charge
	log     []string

	passed, denied, ends int
}

// windowState is what a state is of: each algorithm has its own.
type windowState struct {
	key  sluice.Key
	kind algo.Kind
	name string
}

func stateOf(l *sluice.Limit, k sluice.Key) windowState {
	return windowState{k, l.Params().Kind, l.Name()}
}

func newWindowWalk(t *testing.T, client redisstore.Client, name string, as []sluice.Algorithm) *windowWalk {
	t.Helper()
	w := &windowWalk{
		T: t, rng: rand.New(rand.NewPCG(1, uint64(len(name)))), clock: storetest.NewClock(),
		keys: []sluice.Key{sluice.StringKey("a"), sluice.StringKey("b")},
		kept: make(map[windowState][]*sluice.Limit),
	}
	for _, a := range as {
		l := sluice.MustLimit(name, a)
		w.limits = append(w.limits, l)
		w.units = append(w.units, windowPeriod(l))
	}
	// All of them: near the beginning of a month and of daylight saving.
	w.clock.Advance(time.Duration(w.rng.Int64N(120 * 24 * int64(time.Hour))))
	inMemory, err := memory.New(memory.Options{MaxBytes: 1 << 20, Stripes: 1, Clock: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	onServer, err := redisstore.New(redistest.WithClock(client, w.clock.Now), redisstore.Options{
		Clock: func() int64 { return w.clock.Now() + w.ahead },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.stores = [2]sluice.Store{inMemory, onServer}
	return w
}

// windowPeriod returns the period of a limit in microseconds.
func windowPeriod(l *sluice.Limit) int64 {
	p := l.Params()
	return max(p.Fixed.Length, p.Cells.Length, p.Counter.Length)
}

func (w *windowWalk) step() {
	w.Helper()
	w.pass()
	if w.rng.IntN(20) == 0 { // the server must request the boundaries around its time
		w.ahead = w.rng.Int64N(100*86_400_000_000) - w.ahead
	}
	switch w.rng.IntN(12) {
	case 0, 1:
		w.batch()
	case 2, 3, 4:
		w.end()
	case 5:
		if w.rng.IntN(8) == 0 {
			w.reset(w.limits[w.rng.IntN(len(w.limits))], w.keys[w.rng.IntN(len(w.keys))])
		}
	default:
		w.send(w.request())
	}
	for i := range w.keys {
		l := w.limits[w.rng.IntN(len(w.limits))]
		w.send(sluice.Request{Limit: l, Key: w.keys[i], Cost: int64(w.rng.IntN(2)), Peek: true})
	}
}

// pass lets time pass, or turns it back.
func (w *windowWalk) pass() {
	w.Helper()
	unit := w.units[w.rng.IntN(len(w.units))]
	var step int64
	switch w.rng.IntN(20) {
	case 0, 1, 2, 3:
		step = w.rng.Int64N(3)
	case 4, 5:
		step = w.rng.Int64N(1000)
	case 6, 7, 8, 9:
		step = w.rng.Int64N(unit/50 + 1)
	case 10, 11, 12:
		step = w.rng.Int64N(unit/4 + 1)
	case 13:
		step = w.rng.Int64N(3*unit + 1)
	case 14:
		step = unit - w.clock.Now()%unit // to the microsecond of a boundary
	case 15:
		step = unit - w.clock.Now()%unit - 1
	case 16, 17:
		step = -w.rng.Int64N(unit/20 + 1)
	case 18:
		step = -w.rng.Int64N(unit + 1)
	case 19:
		step = -w.rng.Int64N(4 * unit)
	}
	if step < 0 {
		w.forget()
		step = max(step, -w.clock.Now())
	}
	if w.clock.Now()+step > 1<<53-2*slices.Max(w.units) {
		step = 0 // scripts could not count further
	}
	w.clock.Set(w.clock.Now() + step)
	w.note("%+d", step)
}

// forget resets states that equal fresh ones: a store may forget them at any time, which
// shows only when the clock goes back.
func (w *windowWalk) forget() {
	w.Helper()
	for _, k := range w.keys {
		for _, l := range w.limits {
			if !slices.Contains(w.kept[stateOf(l, k)], l) {
				continue
			}
			if w.send(sluice.Request{Limit: l, Key: k, Peek: true}).ResetAfter == 0 {
				w.reset(l, k)
			}
		}
	}
}

func (w *windowWalk) reset(l *sluice.Limit, k sluice.Key) {
	w.Helper()
	for _, s := range w.stores {
		if err := s.Reset(w.Context(), l, k); err != nil {
			w.Fatal(err)
		}
	}
	delete(w.kept, stateOf(l, k))
	w.note("reset %v of %v", k, l.Algorithm())
}

// request makes up a request.
func (w *windowWalk) request() sluice.Request {
	i := w.rng.IntN(len(w.limits))
	if w.rng.IntN(3) > 0 && len(w.charges) > 0 { // mostly under the same numbers
		i = slices.Index(w.limits, w.charges[len(w.charges)-1].Limit)
	}
	l := w.limits[i]
	r := sluice.Request{Limit: l, Key: w.keys[w.rng.IntN(len(w.keys))], Peek: w.rng.IntN(6) == 0}
	c := l.Capacity()
	switch w.rng.IntN(12) {
	case 0:
	case 1, 2:
		r.Cost = 1 + w.rng.Int64N(3)
	case 3, 4, 5:
		r.Cost = 1 + w.rng.Int64N(c)
	case 6:
		r.Cost = c
	case 7:
		r.Cost = c + 1
	case 8:
		r.Cost = math.MaxInt64 - w.rng.Int64N(2)
	default:
		r.Cost = 1 + w.rng.Int64N(c/10+1)
	}
	switch w.rng.IntN(12) {
	case 0:
		r.Floor = w.rng.Int64N(c + 2)
	case 1:
		r.Floor = c - min(c, r.Cost)
	case 2:
		r.Floor = math.MaxInt64
	}
	switch w.rng.IntN(8) {
	case 0:
		r.MaxWait = sluice.NoWait
	case 1:
		r.MaxWait = time.Second
	case 2:
		r.MaxWait = math.MaxInt64
	}
	switch w.rng.IntN(8) {
	case 0:
		r.Debit = true
	case 1:
		if r.Overdraw = true; w.rng.IntN(2) == 0 {
			r.Cost = []int64{2 * c, 1 << 17, 1 << 40, 1 << 52}[w.rng.IntN(4)]
		}
	}
	return r
}

// send decides one request.
func (w *windowWalk) send(r sluice.Request) sluice.Decision {
	w.Helper()
	var ds [2]sluice.Decision
	for i, s := range w.stores {
		d, err := s.Decide(w.Context(), r)
		if err != nil {
			w.fail("%s: %v", w.text(&r), err)
		}
		ds[i] = d
	}
	w.note("%s: %+v", w.text(&r), ds[0])
	if ds[0] != ds[1] {
		w.fail("on the server:\n%+v", ds[1])
	}
	w.took(&r, &ds[0], true)
	if !r.Peek && r.Cost > 0 {
		if !r.Debit { // a debit may leave the state under its numbers
			w.kept[stateOf(r.Limit, r.Key)] = nil
		}
		w.keep(r.Limit, r.Key)
	}
	return ds[0]
}

// took notes what a request has changed.
func (w *windowWalk) took(r *sluice.Request, d *sluice.Decision, charged bool) {
	if r.Peek {
		return
	}
	if !d.Allowed {
		w.denied++
	} else if charged {
		w.passed++
		w.charges = append(w.charges, r.Charge(d))
	}
}

// batch decides several requests as one.
func (w *windowWalk) batch() {
	w.Helper()
	rs := make([]sluice.Request, 1+w.rng.IntN(4))
	for i := range rs {
		rs[i] = w.request()
		if c := rs[i].Limit.Capacity(); rs[i].Cost > c/2 {
			rs[i].Cost = c / int64(2+w.rng.IntN(4))
		}
		rs[i].Shadow = w.rng.IntN(6) == 0
	}
	w.decideAll(rs)
}

// decideAll decides several requests as one.
func (w *windowWalk) decideAll(rs []sluice.Request) {
	w.Helper()
	var ds [2][]sluice.Decision
	for i, s := range w.stores {
		ds[i] = make([]sluice.Decision, len(rs))
		if err := s.DecideAll(w.Context(), rs, ds[i]); err != nil {
			w.fail("%v", err)
		}
	}
	allowed := true
	for i := range rs {
		w.note("%d. %s: %+v", i, w.text(&rs[i]), ds[0][i])
		allowed = allowed && (ds[0][i].Allowed || rs[i].Shadow)
	}
	for i := range rs {
		if rs[i].Peek { // nothing was charged
			ds[0][i].Receipt, ds[1][i].Receipt = sluice.Receipt{}, sluice.Receipt{}
		}
		if ds[0][i] != ds[1][i] {
			w.fail("%d. on the server:\n%+v", i, ds[1][i])
		}
		w.keep(rs[i].Limit, rs[i].Key)
		w.took(&rs[i], &ds[0][i], allowed || rs[i].Shadow || rs[i].Debit && rs[i].Cost > 0)
	}
}

// keep notes a limit that a state may be kept under.
func (w *windowWalk) keep(l *sluice.Limit, k sluice.Key) {
	w.kept[stateOf(l, k)] = append(w.kept[stateOf(l, k)], l)
}

// end ends an earlier charge, mostly a late one.
func (w *windowWalk) end() {
	w.Helper()
	if len(w.charges) == 0 {
		return
	}
	w.ends++
	i := w.rng.IntN(len(w.charges))
	if w.rng.IntN(4) > 0 {
		i = max(0, len(w.charges)-1-w.rng.IntN(5))
	}
	c := w.charges[i]
	if w.rng.IntN(4) > 0 { // or leave it, to be ended twice
		w.charges = slices.Delete(w.charges, i, i+1)
	}
	w.keep(c.Limit, c.Key)
	if w.rng.IntN(3) == 0 {
		w.note("cancel %d of %v, key %v, at %d", c.Cost, c.Limit.Algorithm(), c.Key, c.Receipt.At)
		for _, s := range w.stores {
			if err := s.Cancel(w.Context(), c); err != nil && !errors.Is(err, sluice.ErrActed) {
				w.fail("%v", err)
			}
		}
		return
	}
	if w.rng.IntN(3) == 0 { // units of the newest charges, whichever they are
		c.Receipt = sluice.Receipt{At: oracle.Newest}
		c.Cost = min(c.Cost+w.rng.Int64N(c.Limit.Capacity()), 1<<53-1)
	}
	actual := []int64{0, c.Cost / 2, c.Cost, c.Cost + 1, 2*c.Cost + 3, 1<<53 - 1, math.MaxInt64, w.rng.Int64N(c.Cost + 5)}[w.rng.IntN(8)]
	w.note("settle %d of %v, key %v, at %d with %d", c.Cost, c.Limit.Algorithm(), c.Key, c.Receipt.At, actual)
	for _, s := range w.stores {
		if err := s.Settle(w.Context(), c, actual); err != nil {
			w.fail("%v", err)
		}
	}
}

func (w *windowWalk) text(r *sluice.Request) string {
	return fmt.Sprintf("%v, key %v: cost %d floor %d wait %d peek %v shadow %v debit %v overdraw %v", r.Limit.Algorithm(), r.Key, r.Cost, r.Floor, r.MaxWait, r.Peek, r.Shadow, r.Debit, r.Overdraw)
}

// note remembers what was done last.
func (w *windowWalk) note(format string, args ...any) {
	if len(w.log) > 10 {
		w.log = w.log[1:]
	}
	w.log = append(w.log, fmt.Sprintf("%d: ", w.clock.Now())+fmt.Sprintf(format, args...))
}

// fail logs what was done last, and what is wrong.
func (w *windowWalk) fail(format string, args ...any) {
	w.Helper()
	for _, line := range w.log {
		w.Log(line)
	}
	w.Fatalf(format, args...)
}

// TestSettleBeyondAll: a key that is settled twice, the second time at more than can be counted, has
// used up its budget.
func TestSettleBeyondAll(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for _, algorithm := range []sluice.Algorithm{
		sluice.FixedWindow{Rate: sluice.PerDay(1<<53 - 1)},
		sluice.SlidingWindow{Rate: sluice.PerDay(1<<53 - 2)},
		sluice.TokenBucket{Rate: sluice.Per(1, time.Microsecond), Burst: 1 << 52, Debt: 1},
		sluice.LeakyBucket{Rate: sluice.Per(3, 7*time.Microsecond), Queue: 1<<53 - 3},
	} {
		d := a.duel(t, 1, func(*duel) sluice.Algorithm { return algorithm })
		r := sluice.Request{Limit: d.limits[0], Key: d.keys[0]}
		r.Cost = r.Limit.Capacity() - 1
		d.decide(r)
		for _, actual := range []int64{1, math.MaxInt64} {
			d.settle(0, actual)
			d.look(r.Limit, r.Key)
		}
	}
}
