package memory

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// peek returns the decision about one unit of a key.
func peek(tb testing.TB, s *Store, l *sluice.Limit, k sluice.Key) sluice.Decision {
	tb.Helper()
	d, err := s.Decide(tb.Context(), sluice.Request{Limit: l, Key: k, Cost: 1, Peek: true})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// TestTimePassesBetweenSaveAndLoad moves the clock between the save and the load. Time that passed
// counts, and a clock that went back refills nothing and locks no key out for more than a period.
func TestTimePassesBetweenSaveAndLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		passed    time.Duration
		remaining int64
		longest   time.Duration // the longest wait for a unit
	}{
		{0, 0, time.Second},
		{3 * time.Second, 3, 0},
		{10 * time.Second, 10, 0},
		{100 * 365 * 24 * time.Hour, 10, 0},
		{-5 * time.Second, 0, 6 * time.Second},
		{-10 * time.Second, 0, 11 * time.Second},
		{-time.Hour, 0, 10 * time.Second},
		{-30 * 365 * 24 * time.Hour, 0, 10 * time.Second},
	} {
		now := int64(start)
		s := open(t, &now, Options{})
		for _, a := range []sluice.Algorithm{
			sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 10},
			sluice.FixedWindow{Rate: sluice.Per(10, 10*time.Second), Opened: true},
			sluice.SlidingLog{Rate: sluice.Per(10, 10*time.Second)},
			sluice.SlidingWindow{Rate: sluice.Per(10, 10*time.Second)},
		} {
			take(t, s, sluice.MustLimit("l", a), numbered(1), 10)
		}
		banned := fuzzLimits[0]
		if err := s.BanKey(t.Context(), banned, numbered(1), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := s.Save(&file); err != nil {
			t.Fatal(err)
		}
		now += micros(c.passed)
		loaded := load(t, file.Bytes(), Options{Clock: func() int64 { return now }})
		d := peek(t, loaded, sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 10}), numbered(1))
		if d.Remaining != c.remaining || d.RetryAfter > c.longest {
			t.Errorf("%v: the bucket answers %+v", c.passed, d)
		}
		for _, a := range []sluice.Algorithm{
			sluice.FixedWindow{Rate: sluice.Per(10, 10*time.Second), Opened: true},
			sluice.SlidingLog{Rate: sluice.Per(10, 10*time.Second)},
			sluice.SlidingWindow{Rate: sluice.Per(10, 10*time.Second)},
		} {
			d := peek(t, loaded, sluice.MustLimit("l", a), numbered(1))
			if over := c.passed > 10*time.Second; d.Allowed != over && c.passed != 10*time.Second || d.RetryAfter > 22*time.Second {
				t.Errorf("%v: %v answers %+v", c.passed, a, d)
			}
		}
		d, err := loaded.Decide(t.Context(), sluice.Request{Limit: banned, Key: numbered(1), Cost: 1, Ban: &sluice.Ban{}})
		if isBanned := d.Reason == sluice.ReasonBanned; err != nil || isBanned != (c.passed < 5*time.Second) || d.RetryAfter > 15*time.Second {
			t.Errorf("%v: the banned key gets %+v, %v", c.passed, d, err)
		}
	}
}

// TestLimitsChangeBetweenSaveAndLoad: a limit that has other numbers after the restart decides as
// without the restart, for every pair of versions. The states of a limit that is gone are forgotten
// when they equal fresh ones.
func TestLimitsChangeBetweenSaveAndLoad(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s, file := everything(t, &now)
	loaded := load(t, file, Options{Clock: func() int64 { return now }})
	for step := range 40 {
		for _, l := range fuzzLimits {
			for k := range 6 {
				r := sluice.Request{Limit: l, Key: numbered(k), Cost: int64(step % 3), Member: uint64(k + 1), Ban: &sluice.Ban{}, Peek: step%4 > 0}
				want, err1 := s.Decide(t.Context(), r)
				got, err2 := loaded.Decide(t.Context(), r)
				if err1 != nil || err2 != nil || got != want {
					t.Fatalf("%v: %+v, %v; without the restart %+v, %v", l, got, err2, want, err1)
				}
			}
		}
		now += 60_000
	}
	now = start
	gone := load(t, file, Options{Clock: func() int64 { return now }})
	if n := gone.Stats().Keys; n == 0 {
		t.Error("the states of limits that nobody uses are gone at once")
	}
	now += micros(3 * time.Hour)
	for range 10_000 {
		take(t, gone, brief("another", 1000), numbered(7), 1)
		now += 1000
	}
	if n := gone.Stats().Keys; n > 2 {
		t.Errorf("%d states of limits that nobody uses stay although they are fresh", n)
	}
}

// TestFullStoreIsLoaded: a store that is full fits into the same bound again, with all its states, also
// with more stripes. New keys still share what is left.
func TestFullStoreIsLoaded(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	now := int64(start)
	s := open(t, &now, Options{MaxBytes: most, Stripes: 4})
	l, logs := lasting("l", 1000), sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(30)})
	n := 0
	for denied := 0; denied < 400; n++ { // in a row: what new keys share is used up in all stripes
		take(t, s, logs, numbered(n), 10)
		if denied++; take(t, s, l, numbered(n), 10).Allowed {
			denied = 0
		}
	}
	var file bytes.Buffer
	if err := s.Save(&file); err != nil {
		t.Fatal(err)
	}
	for _, stripes := range []int{1, 4, 16} {
		loaded := load(t, file.Bytes(), Options{Clock: func() int64 { return now }, MaxBytes: most, Stripes: stripes})
		if b := loaded.Stats().Bytes; b > most+most/4 {
			t.Errorf("%d stripes: the store has %d bytes", stripes, b)
		}
		for k := range n {
			for _, l := range []*sluice.Limit{l, logs} {
				want, got := peek(t, s, l, numbered(k)), peek(t, loaded, l, numbered(k))
				if got != want {
					t.Fatalf("%d stripes, key %d of %v: %+v, want %+v", stripes, k, l, got, want)
				}
			}
		}
		// Each stripe has the states that its new keys share.
		for i := range loaded.stripes {
			for _, l := range []*sluice.Limit{l, logs} {
				v := loaded.version(l)
				p := loaded.overflow(&location{v: v, stripe: &loaded.stripes[i]})
				if e := p.stripe.lookup(&p); e == nil || p.stripe.fresh(e, now) {
					t.Errorf("%d stripes: new keys of stripe %d share no used budget of %v", stripes, i, l)
				}
			}
		}
		for k := n; k < n+100; k++ {
			if d := take(t, loaded, l, numbered(k), 1); stripes <= 4 && !d.Overflow || d.Overflow && d.Allowed {
				t.Fatalf("%d stripes: a new key gets %+v; all new keys have shared a used budget", stripes, d)
			}
		}
	}
	big := open(t, &now, Options{})
	for k := range 200_000 {
		take(t, big, l, numbered(k), 1)
	}
	file.Reset()
	if err := big.Save(&file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(&file, Options{Clock: func() int64 { return now }, MaxBytes: leastBytes}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("states of 6 MB are loaded into 1 MiB: %v", err)
	}
}

// TestManyLimitsAreLoaded: limits that are made on the fly come back, and are given up when their
// states are.
func TestManyLimitsAreLoaded(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{})
	limits := make([]*sluice.Limit, 1500)
	for i := range limits {
		limits[i] = lasting(fmt.Sprint("limit-", i), 5)
		take(t, s, limits[i], numbered(i), 1+int64(i%5))
	}
	loaded := reload(t, s, Options{Clock: func() int64 { return now }})
	for i, l := range limits {
		if d := peek(t, loaded, l, numbered(i)); d.Remaining != 5-1-int64(i%5) {
			t.Fatalf("limit %d: %+v", i, d)
		}
	}
}

// TestALimitWithoutStatesGetsOne: Load gives up limits without states when many limits come. A later save
// may have a state of such a limit again.
func TestALimitWithoutStatesGetsOne(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{})
	early := brief("early", 10)
	take(t, s, early, numbered(1), 10)
	saver := s.NewSaver()
	var file bytes.Buffer
	if _, err := saver.SaveAll(&file); err != nil {
		t.Fatal(err)
	}
	for i := range 700 {
		take(t, s, lasting(fmt.Sprint("limit-", i), 5), numbered(i), 1)
	}
	if _, err := saver.SaveChanges(&file); err != nil {
		t.Fatal(err)
	}
	now += micros(time.Minute)
	take(t, s, early, numbered(1), 7)
	if _, err := saver.SaveChanges(&file); err != nil {
		t.Fatal(err)
	}
	loaded := load(t, file.Bytes(), Options{Clock: func() int64 { return now }})
	if d := peek(t, loaded, early, numbered(1)); d.Remaining != 3 {
		t.Errorf("7 of 10 units were saved as taken, but the loaded state is %+v", d)
	}
}

// TestChargesOutliveARestart: charges are settled, cancelled and released after a restart, and a lease
// that nobody releases ends with its TTL.
func TestChargesOutliveARestart(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{})
	bucket := lasting("bucket", 10)
	leases := sluice.MustLimit("leases", sluice.Concurrency{Max: 2, TTL: time.Minute})
	charged := sluice.Request{Limit: bucket, Key: numbered(1), Cost: 8}
	d, err := s.Decide(t.Context(), charged)
	if err != nil {
		t.Fatal(err)
	}
	first := sluice.Request{Limit: leases, Key: numbered(1), Cost: 1, Member: 1}
	second := sluice.Request{Limit: leases, Key: numbered(1), Cost: 1, Member: 2}
	one, err1 := s.Decide(t.Context(), first)
	_, err2 := s.Decide(t.Context(), second)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	loaded := reload(t, s, Options{Clock: func() int64 { return now }})
	if err := loaded.Settle(t.Context(), charged.Charge(&d), 3); err != nil {
		t.Fatal(err)
	}
	if d := peek(t, loaded, bucket, numbered(1)); d.Remaining != 7 {
		t.Errorf("after the settlement: %+v", d)
	}
	if d := take(t, loaded, leases, numbered(1), 0); d.Remaining != 0 {
		t.Errorf("the leases are gone: %+v", d)
	}
	if err := loaded.Release(t.Context(), first.Charge(&one), 0); err != nil {
		t.Error(err)
	}
	if d := take(t, loaded, leases, numbered(1), 0); d.Remaining != 1 {
		t.Errorf("after the release: %+v", d)
	}
	now += micros(time.Minute)
	if d := take(t, loaded, leases, numbered(1), 0); d.Remaining != 2 {
		t.Errorf("after the TTL: %+v", d)
	}
}

// failing fails some calls of Write, and takes back what it has written of them.
type failing struct {
	bytes.Buffer
	calls int
}

var errWrite = errors.New("no space left")

func (f *failing) Write(p []byte) (int, error) {
	f.calls++
	if f.calls%29 == 0 {
		return len(p) / 2, errWrite
	}
	return f.Buffer.Write(p)
}

// TestSavesGoOnAfterErrors: if a write fails, the next save writes what is missing.
func TestSavesGoOnAfterErrors(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 8})
	saver := s.NewSaver()
	if _, err := saver.SaveChanges(new(bytes.Buffer)); !errors.Is(err, errSaveAll) {
		t.Errorf("changes before a first save: %v", err)
	}
	if _, err := saver.SaveAll(&failing{calls: 24}); !errors.Is(err, errWrite) {
		t.Errorf("the writer failed: %v", err)
	}
	limits := []*sluice.Limit{lasting("one", 1<<20), lasting("two", 1<<20), lasting("three", 1<<20)}
	var file failing
	if _, err := saver.SaveAll(&file.Buffer); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for round := range 60 {
		for k := range 50 {
			take(t, s, limits[round%3], numbered(k+round), 1)
		}
		if err := s.Reset(t.Context(), limits[0], numbered(round)); err != nil {
			t.Fatal(err)
		}
		if _, err := saver.SaveChanges(&file); err != nil {
			failed++
		}
		if _, err := saver.SaveAll(&failing{calls: 20}); !errors.Is(err, errWrite) {
			t.Fatalf("a compaction without space: %v", err)
		}
	}
	for range 3 { // one of two saves in a row succeeds
		if _, err := saver.SaveChanges(&file); err != nil && !errors.Is(err, errWrite) {
			t.Fatal(err)
		}
	}
	if report, err := saver.SaveChanges(&file); err != nil || report != (Saved{LongestLock: report.LongestLock}) {
		t.Errorf("nothing has changed, and %+v was written, %v", report, err)
	}
	loaded := load(t, file.Bytes(), Options{Clock: func() int64 { return now }})
	for _, l := range limits {
		for k := range 120 {
			if got, want := peek(t, loaded, l, numbered(k)), peek(t, s, l, numbered(k)); got != want {
				t.Fatalf("key %d of %v: %+v, want %+v", k, l, got, want)
			}
		}
	}
	if failed < 5 {
		t.Errorf("only %d saves failed", failed)
	}
	closed, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	if err := closed.Save(new(bytes.Buffer)); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("saving a closed store: %v", err)
	}
}

// TestStatesOfAFailedSaveDoNotReturn: a save fails after some of its blocks. What they have and the store no longer has does
// not return, and what has become again what it was before is saved again.
func TestStatesOfAFailedSaveDoNotReturn(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 1})
	saver := s.NewSaver()
	l := lasting("one", 1<<20)
	const keys = 8000 // several blocks
	for k := range keys / 2 {
		take(t, s, l, numbered(k), 5)
	}
	var file failing
	if _, err := saver.SaveAll(&file.Buffer); err != nil {
		t.Fatal(err)
	}
	var charges []sluice.Charge
	for k := range keys {
		r := sluice.Request{Limit: l, Key: numbered(k), Cost: 1}
		d, err := s.Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		charges = append(charges, r.Charge(&d))
	}
	for _, k := range []int{10, 11, 12} {
		if err := s.Reset(t.Context(), l, numbered(k)); err != nil {
			t.Fatal(err)
		}
	}
	file.calls = 24 // the fifth call fails
	if _, err := saver.SaveChanges(&file); !errors.Is(err, errWrite) {
		t.Fatalf("the writer failed: %v", err)
	}
	for k, c := range charges {
		var err error
		if k < keys/2 {
			err = s.Cancel(t.Context(), c) // so that the state is what was saved first
		} else {
			err = s.Reset(t.Context(), l, numbered(k))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	take(t, s, l, numbered(10), 5)
	if _, err := saver.SaveChanges(&file); err != nil {
		t.Fatal(err)
	}
	if report, err := saver.SaveChanges(&file); err != nil || report.States+report.Removed > 0 {
		t.Errorf("nothing has changed, and %+v was written, %v", report, err)
	}
	loaded := load(t, file.Bytes(), Options{Clock: func() int64 { return now }})
	for k := range keys {
		if got, want := peek(t, loaded, l, numbered(k)), peek(t, s, l, numbered(k)); got != want {
			t.Fatalf("key %d: %+v, want %+v", k, got, want)
		}
	}
}

var update = flag.Bool("update", false, "write the file of saved states again, with another version of the format")

// TestSavedStatesOfThisVersion loads a file of an earlier program. If it fails, the format, the
// hashes, the numbers of the algorithms or their states have changed: raise formatVersion, and run the
// test with -update.
func TestSavedStatesOfThisVersion(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("testdata/saved-%d", formatVersion)
	now := int64(start)
	s, file := everything(t, &now)
	if *update {
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	loaded := load(t, file, Options{Clock: func() int64 { return now }})
	for _, l := range fuzzLimits {
		for k := range 6 {
			if got, want := peek(t, loaded, l, numbered(k)), peek(t, s, l, numbered(k)); got != want {
				t.Errorf("key %d of %v: %+v, want %+v", k, l, got, want)
			}
		}
	}
	page, err := loaded.ListBans(t.Context(), sluice.BanQuery{})
	if err != nil || len(page.Bans) != 3 {
		t.Errorf("the bans are %+v, %v", page, err)
	}
	newer := bytes.Clone(file)
	newer[len(magic)]++
	var b blockWriter
	var out bytes.Buffer
	b.w = &out
	if err := b.preamble(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(bytes.NewReader(newer), Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a changed version: %v", err)
	}
}

// TestSavesKeepTheirBytes: a store with the secrets and the states of a file of an earlier program writes that file, byte by
// byte. If it does not, earlier programs may not read what it writes: see TestSavedStatesOfThisVersion.
func TestSavesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(fmt.Sprintf("testdata/saved-%d", formatVersion))
	if err != nil {
		t.Fatal(err)
	}
	now := int64(start)
	earlier := load(t, want, Options{Clock: func() int64 { return now }})
	s := open(t, &now, Options{Stripes: 2})
	s.first, s.second = earlier.first, earlier.second
	fill(t, s)
	var got bytes.Buffer
	v := s.NewSaver()
	v.saved = make([]markList, len(s.stripes))
	v.progress = progress{saved: v.saved, defined: map[uint64]bool{}, out: blockWriter{w: &got}}
	copy(v.file[:], want[preambleSize+blockHeader:])
	if _, err := v.saveAll(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the same states are now saved as\n%x\nwant the file of an earlier program\n%x", got.Bytes(), want)
	}
}

// TestChangesLoadAsFastAsASnapshot: states that a later save has added come in the order of keys, for tables that were small
// in the first save. They take no longer than states of the first save: each key crowds few others.
func TestChangesLoadAsFastAsASnapshot(t *testing.T) {
	t.Parallel()
	const keys = 150_000
	now := int64(start)
	o := Options{Clock: func() int64 { return now }, Stripes: 1}
	s := open(t, &now, Options{Stripes: 1})
	l := lasting("l", 10)
	saver := s.NewSaver()
	var changes, snapshot bytes.Buffer
	if _, err := saver.SaveAll(&changes); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		take(t, s, l, numbered(k), 1+int64(k%7))
	}
	if _, err := saver.SaveChanges(&changes); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(&snapshot); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	load(t, snapshot.Bytes(), o)
	least := time.Since(began)
	began = time.Now()
	loaded := load(t, changes.Bytes(), o)
	if took := time.Since(began); took > 10*least+time.Second {
		t.Errorf("changes take %v, and a snapshot takes %v", took, least)
	}
	for k := range keys {
		if d := peek(t, loaded, l, numbered(k)); d.Remaining != 9-int64(k%7) {
			t.Fatalf("key %d: %+v", k, d)
		}
	}
	if most := s.Stats().Bytes * 3 / 2; loaded.Stats().Bytes > most {
		t.Errorf("the store takes %d bytes, want %d at most", loaded.Stats().Bytes, most)
	}
}
