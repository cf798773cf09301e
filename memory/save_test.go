package memory

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/soak"
)

// reload saves a store and returns the store that Load makes of it.
func reload(tb testing.TB, s *Store, o Options) *Store {
	tb.Helper()
	var file bytes.Buffer
	if err := s.Save(&file); err != nil {
		tb.Fatal(err)
	}
	return load(tb, file.Bytes(), o)
}

func load(tb testing.TB, file []byte, o Options) *Store {
	tb.Helper()
	s, report, err := Load(bytes.NewReader(file), o)
	if err != nil || report.Incomplete {
		tb.Fatalf("the file did not load completely: %+v, %v", report, err)
	}
	checkInvariants(tb, s)
	if n := s.Stats().Keys; n != report.States {
		tb.Errorf("%d states are reported, and %d are there", report.States, n)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// playRestarting plays a script on a store that is saved after each step, and now and then replaced by
// what Load makes of the file. The model is never replaced.
func playRestarting(tb testing.TB, script []byte) {
	tb.Helper()
	p := newPlayer(tb, script)
	var file bytes.Buffer
	saver := p.store.NewSaver()
	if _, err := saver.SaveAll(&file); err != nil {
		tb.Fatal(err)
	}
	for len(p.bytes) > 0 {
		p.step()
		if p.n(8) == 0 {
			if p.n(8) == 0 { // as after a compaction
				file.Reset()
				if _, err := saver.SaveAll(&file); err != nil {
					tb.Fatal(err)
				}
			}
			if _, err := saver.SaveChanges(&file); err != nil {
				tb.Fatal(err)
			}
			if p.n(4) > 0 {
				continue
			}
			p.store = load(tb, file.Bytes(), Options{Clock: func() int64 { return p.now }, Stripes: 1 << p.n(5)})
			saver = p.store.NewSaver()
			file.Reset()
			if _, err := saver.SaveAll(&file); err != nil {
				tb.Fatal(err)
			}
		}
	}
	p.store = reload(tb, p.store, Options{Clock: func() int64 { return p.now }})
	p.look()
}

// FuzzRestarts plays operations on a store that is saved and loaded in between, and on a model that
// is not: both decide the same.
func FuzzRestarts(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(noise(seed, 300))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { playRestarting(t, bytes) })
}

// TestRestartsAgainstModel plays long scripts with restarts, for all algorithms.
func TestRestartsAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(soak.Times(t, 15)) {
		playRestarting(t, noise(seed, 6000))
	}
}

// lawLimits are limits that never give anything back while a test runs. Each key of a limit gets units
// as long as there are any.
var lawLimits = []*sluice.Limit{
	sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.Per(2, 30*24*time.Hour), Burst: 1 << 16}),
	sluice.MustLimit("window", sluice.FixedWindow{Rate: sluice.Per(1<<20, 30*24*time.Hour), Opened: true}),
	sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.Per(1<<16, 30*24*time.Hour)}),
	sluice.MustLimit("cells", sluice.SlidingWindow{Rate: sluice.Per(1<<20, 30*24*time.Hour)}),
}

// used returns how many units of a key are used.
func used(tb testing.TB, s *Store, l *sluice.Limit, k sluice.Key) int64 {
	tb.Helper()
	d, err := s.Decide(tb.Context(), sluice.Request{Limit: l, Key: k, Cost: 1, Peek: true})
	if err != nil {
		tb.Fatal(err)
	}
	return l.Capacity() - d.Remaining
}

// TestSavesUnderLoad saves a store again and again while goroutines take units of old and new keys, so
// that tables grow, and bans come and go, so that entries are removed. Each saved state is one that the
// key had during the save: at least what was used before the save began, and at most what was used when
// it had ended. No key is missed or doubled.
func TestSavesUnderLoad(t *testing.T) {
	t.Parallel()
	const keys = 1500
	rounds := soak.Times(t, 3)
	s, err := New(Options{Stripes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var mu sync.Mutex // a unit is counted before anybody can see that it is missing
	var count [4][keys]int64
	one := func(i, k int) {
		d, err := s.Take(t.Context(), lawLimits[i], numbered(k), 1)
		if err != nil || !d.Allowed {
			t.Errorf("a unit of a key with enough of them: %+v, %v", d, err)
			return
		}
		mu.Lock()
		count[i][k]++
		mu.Unlock()
	}
	passing := sluice.MustLimit("passing", sluice.TokenBucket{Rate: sluice.PerSecond(1)})
	stop := make(chan struct{})
	var working sync.WaitGroup
	for g := range 3 {
		working.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 7))
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				one(r.IntN(4), r.IntN(min(n/2+1, keys)))
				k := numbered(keys + r.IntN(500))
				_ = s.BanKey(t.Context(), passing, k, time.Hour)
				_, _ = s.LiftBan(t.Context(), passing, k)
			}
		})
	}
	total := func() (c [4][keys]int64) {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
	saver := s.NewSaver()
	var file bytes.Buffer
	for round := range rounds {
		before := total()
		save := saver.SaveChanges
		if round%4 == 0 {
			file.Reset()
			save = saver.SaveAll
		}
		if _, err := save(&file); err != nil {
			t.Fatal(err)
		}
		loaded, _, err := Load(bytes.NewReader(file.Bytes()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		after := total()
		checkInvariants(t, loaded)
		for i, l := range lawLimits {
			for k := range keys {
				// Each goroutine may have taken a unit that it has not counted yet.
				if n := used(t, loaded, l, numbered(k)); n < before[i][k] || n > after[i][k]+3 {
					t.Fatalf("round %d: %d units of key %d of %v are saved as used; it was %d before the save and %d after it", round, n, k, l, before[i][k], after[i][k])
				}
			}
		}
		if err := loaded.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	working.Wait()
	if _, err := saver.SaveChanges(&file); err != nil {
		t.Fatal(err)
	}
	loaded := load(t, file.Bytes(), Options{Stripes: 64})
	last := total()
	for i, l := range lawLimits {
		for k := range keys {
			if n := used(t, loaded, l, numbered(k)); n != last[i][k] {
				t.Fatalf("%d units of key %d of %v are saved, want %d", n, k, l, last[i][k])
			}
		}
	}
	page, err := loaded.ListBans(t.Context(), sluice.BanQuery{})
	if err != nil || len(page.Bans) > 0 {
		t.Errorf("lifted bans are loaded: %v, %v", page, err)
	}
}

// TestWalkVisitsEachKeyOnce walks through tables of all sizes, also while they grow and shrink between
// two parts of the walk.
func TestWalkVisitsEachKeyOnce(t *testing.T) {
	t.Parallel()
	now := int64(start)
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 1000})
	for n := 0; n < min(soak.Times(t, 150), 300); n += 7 {
		s := open(t, &now, Options{Stripes: 1})
		for k := range n * n / 5 {
			take(t, s, l, numbered(k), 1)
		}
		sp := &s.stripes[0]
		w := walk{}
		seen := make(map[banID]bool)
		more := 1 << 20 // keys that come during the walk
		for w.begin(sp); !w.done; {
			if err := w.part(); err != nil {
				t.Fatal(err)
			}
			if len(w.copies) > mostCopies {
				t.Fatalf("a part has %d entries", len(w.copies))
			}
			for _, c := range w.copies {
				id := banID{c.key, c.tag}
				if seen[id] {
					t.Fatal("a key is copied twice")
				}
				seen[id] = true
			}
			for range n {
				take(t, s, l, numbered(more), 1)
				more++
			}
		}
		for k := range n * n / 5 {
			p := s.locate(s.version(l), numbered(k))
			if !seen[banID{p.key, p.tag >> hashShift << hashShift}] {
				t.Fatalf("%d keys: key %d is missed", n*n/5, k)
			}
		}
	}
}

// TestSaveWaitsForADecision: a decision that has locked its entry before a save locks the stripe is in the
// save.
func TestSaveWaitsForADecision(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 1})
	l := lasting("l", 1000)
	take(t, s, l, numbered(1), 1)
	p := s.locate(s.version(l), numbered(1))
	sp := p.stripe
	e := sp.lookup(&p)
	decided := algo.State{T: start, V: 7 * e.state.V}
	if !e.lock(p.tag) {
		t.Fatal("the entry cannot be locked")
	}
	var w walk
	var err error
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		w.begin(sp)
		err = w.part()
	}()
	for range 1000 {
		for !sp.frozen.Load() {
			select {
			case <-copied:
				t.Fatal("the save does not wait for a decision")
			default:
			}
		}
		runtime.Gosched()
	}
	e.state = decided
	e.unlock(p.tag)
	<-copied
	if err != nil || len(w.copies) != 1 || w.copies[0].state != decided {
		t.Errorf("%+v, %v; want the state %+v", w.copies, err, decided)
	}
}

// everything returns a store with states of all kinds, and its file.
func everything(tb testing.TB, now *int64) (*Store, []byte) {
	tb.Helper()
	s := open(tb, now, Options{Stripes: 2})
	fill(tb, s)
	var file bytes.Buffer
	if err := s.Save(&file); err != nil {
		tb.Fatal(err)
	}
	return s, file.Bytes()
}

// fill makes states of every algorithm, and bans.
func fill(tb testing.TB, s *Store) {
	tb.Helper()
	for i, l := range fuzzLimits {
		for k := range 5 {
			r := sluice.Request{Limit: l, Key: numbered(k), Cost: int64(1 + (i+k)%3), Member: uint64(k + 1)}
			if _, err := s.Decide(tb.Context(), r); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for _, k := range []sluice.Key{numbered(1), sluice.NewKey("a", "b", "c"), sluice.StringKey(string(bytes.Repeat([]byte("long"), 100)))} {
		if err := s.BanKey(tb.Context(), fuzzLimits[0], k, time.Hour); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestDamagedFiles cuts a file at every offset, and flips every bit of it: Load refuses it, and never
// ends the program.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	now := int64(start)
	_, file := everything(t, &now)
	o := Options{Clock: func() int64 { return now }}
	refuses := func(what string, at int, file []byte) {
		t.Helper()
		_, _, err := Load(bytes.NewReader(file), o)
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
			t.Fatalf("%s %d: Load returned %v, want ErrDamaged or ErrForeign", what, at, err)
		}
	}
	for n := range file {
		refuses("cut at", n, file[:n])
		bad := bytes.Clone(file)
		bad[n] ^= 1 << (n % 8)
		refuses("a bit flipped at", n, bad)
	}
	for text, want := range map[string]error{
		"": ErrDamaged, "sluic": ErrDamaged, "version: 1\nrules: []\n": ErrForeign, "\x00": ErrForeign,
	} {
		if _, _, err := Load(bytes.NewReader([]byte(text)), o); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// TestDamagedTails cuts and damages what SaveChanges has added to a file. The store has at least what
// the saves before it have, and reports that the last save is incomplete. Damage before the last save
// is refused.
func TestDamagedTails(t *testing.T) {
	t.Parallel()
	now := int64(start)
	l := lawLimits[0]
	s := open(t, &now, Options{Stripes: 2})
	saver := s.NewSaver()
	var file bytes.Buffer
	var ends []int
	save := saver.SaveAll
	for range 3 {
		for k := range 40 {
			take(t, s, l, numbered(k), 1)
		}
		if _, err := save(&file); err != nil {
			t.Fatal(err)
		}
		save = saver.SaveChanges
		ends = append(ends, file.Len())
	}
	o := Options{Clock: func() int64 { return now }}
	check := func(what string, at int, file []byte, least int64, incomplete bool) {
		t.Helper()
		loaded, report, err := Load(bytes.NewReader(file), o)
		if err != nil || report.Incomplete != incomplete {
			t.Fatalf("%s %d: Load reports %+v, %v; want incomplete %v", what, at, report, err, incomplete)
		}
		checkInvariants(t, loaded)
		for k := range 40 {
			if n := used(t, loaded, l, numbered(k)); n < least || n > 3 {
				t.Fatalf("%s %d: %d units of key %d are used, want %d or more", what, at, n, k, least)
			}
		}
	}
	for n := ends[0]; n <= ends[2]; n++ {
		saves := int64(1)
		if n >= ends[1] {
			saves++
		}
		if n == ends[2] {
			saves++
		}
		check("cut at", n, file.Bytes()[:n], saves, n != ends[0] && n != ends[1] && n != ends[2])
		if n == ends[2] {
			break
		}
		bad := bytes.Clone(file.Bytes())
		bad[n] ^= 1 << (n % 8)
		if n >= ends[1] {
			check("a bit flipped at", n, bad, 2, true)
		} else if _, _, err := Load(bytes.NewReader(bad), o); !errors.Is(err, ErrDamaged) {
			t.Fatalf("a bit flipped at %d, before another save: %v", n, err)
		}
		// A disk may end a file with zeros after a loss of power.
		zeros := append(bytes.Clone(file.Bytes()[:n]), make([]byte, 5000)...)
		if n > ends[1] {
			check("zeros from", n, zeros, 2, true)
		}
	}
}
