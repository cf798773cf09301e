package overrides

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// openLocal opens a book at a path, and returns it with its log.
func openLocal(t *testing.T, path string) (*Book, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	b, err := OpenLocal(path, policy.NewOverrideTable(), slog.New(slog.NewTextHandler(log, nil)), telemetry.NewMetrics("test"))
	if err != nil {
		t.Fatal(err)
	}
	return b, log
}

// content returns what a book has of a rule, in a line.
func content(t *testing.T, b *Book) string {
	t.Helper()
	page, _, _, err := b.List(t.Context(), "r", "", sluice.Key{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, o := range page {
		words = append(words, o.Key.String()+"="+o.Terms)
	}
	if b.Table.Len() != len(words) {
		t.Errorf("the table has %d overrides, and the list %d", b.Table.Len(), len(words))
	}
	return strings.Join(words, " ")
}

func set(key, terms string) Override {
	return Override{Rule: "r", Key: sluice.StringKey(key), Terms: terms, Note: "a note", By: "ann@desk", At: time.UnixMilli(1_800_000_000_000)}
}

func unset(key string) Override {
	return Override{Rule: "r", Key: sluice.StringKey(key), Removed: true}
}

// change makes changes, and returns which of the overrides there were.
func change(t *testing.T, b *Book, changes ...Override) string {
	t.Helper()
	found, err := b.Change(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(found)
}

// A journal has what a map has after random changes, whenever the server ends: also if it is killed, so that nobody closes the file.
func TestJournalKeepsWhatWasAnswered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides")
	random := rand.New(rand.NewPCG(1, 1))
	truth := map[string]string{}
	for round := range 30 {
		b, log := openLocal(t, path)
		for range random.IntN(20) {
			var batch []Override
			var were []bool
			seen := map[string]bool{}
			for range 1 + random.IntN(3) {
				key := fmt.Sprint("k", random.IntN(15))
				if seen[key] {
					continue
				}
				_, was := truth[key]
				were = append(were, was)
				if seen[key] = true; random.IntN(3) == 0 {
					batch = append(batch, unset(key))
					delete(truth, key)
				} else {
					batch = append(batch, set(key, fmt.Sprint(random.IntN(100))))
					truth[key] = batch[len(batch)-1].Terms
				}
			}
			if found := change(t, b, batch...); found != fmt.Sprint(were) {
				t.Fatalf("round %d: the changes found %s, want %v", round, found, were)
			}
		}
		var want []string
		for i := range 15 {
			if terms, known := truth[fmt.Sprint("k", i)]; known {
				want = append(want, fmt.Sprint("k", i, "=", terms))
			}
		}
		got := content(t, b)
		for _, word := range want {
			if !strings.Contains(" "+got+" ", " "+word+" ") {
				t.Fatalf("round %d: %q lacks %s", round, got, word)
			}
		}
		if b.Table.Len() != len(want) || log.Len() > 0 {
			t.Fatalf("round %d: %d overrides, want %d; the log has %q", round, b.Table.Len(), len(want), log)
		}
		// The lock ends with the process. The rest of the file is as a killed program leaves it.
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A journal whose last entry is cut off or damaged loses this entry, as after a loss of power, and stays beside. A journal that is
// damaged before it is set aside, and nothing of it is in force.
func TestJournalsAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides")
	b, _ := openLocal(t, path)
	change(t, b, set("a", "1"))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change(t, b, set("b", "2"))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for n := len(before); n <= len(whole); n++ {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		b, log := openLocal(t, path)
		want, complains := "a=1", n > len(before)
		if n == len(whole) {
			want, complains = "a=1 b=2", false
		}
		if got := content(t, b); got != want || strings.Contains(log.String(), "cut off") != complains {
			t.Errorf("%d of %d bytes: %q, want %q; the log has %q", n, len(whole), got, want, log)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if kept := asideOf(t, path); complains != bytes.Equal(kept, whole[:n]) {
			t.Errorf("%d of %d bytes: %q is set aside", n, len(whole), kept)
		}
	}
	for at := range whole {
		damaged, want, says := bytes.Clone(whole), "", "none is in force"
		damaged[at] ^= 1
		switch {
		case at >= len(before):
			want, says = "a=1", "changes before it are in force"
		case at >= len(magic) && at < len(magic)+4: // a length beyond the end, or in the next entry
			says = ""
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		b, log := openLocal(t, path)
		if got := content(t, b); got != want || !strings.Contains(log.String(), says) {
			t.Errorf("byte %d damaged: %q, want %q; the log has %q", at, got, want, log)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if kept := asideOf(t, path); !bytes.Equal(kept, damaged) {
			t.Errorf("byte %d damaged: %q is set aside, want %q", at, kept, damaged)
		}
		// The journal that follows has what was in force, and what changes then.
		b, _ = openLocal(t, path)
		change(t, b, set("c", "3"))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b, _ = openLocal(t, path)
		if got := content(t, b); got != strings.TrimSpace(want+" c=3") {
			t.Errorf("byte %d damaged: after a change and a restart, %q is in force, want %s c=3", at, got, want)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// asideOf returns the file that was set aside, and removes it; nothing if there is none.
func asideOf(t *testing.T, path string) []byte {
	t.Helper()
	aside, err := filepath.Glob(path + ".refused-*")
	if err != nil || len(aside) > 1 {
		t.Fatalf("%q are set aside, %v; want one at most", aside, err)
	}
	if len(aside) == 0 {
		return nil
	}
	text, err := os.ReadFile(aside[0])
	if err := errors.Join(err, os.Remove(aside[0])); err != nil {
		t.Fatal(err)
	}
	return text
}

// An override has all fields after a restart, and ends at its time, in the file too.
func TestOverridesEndAndKeepTheirFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides")
	synctest.Test(t, func(t *testing.T) {
		b, _ := openLocal(t, path)
		o := set("a", "1")
		o.Until = time.Now().Add(3 * time.Second)
		if found := change(t, b, o, set("b", "2")); found != "[false false]" {
			t.Errorf("new overrides were found: %s", found)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b, _ = openLocal(t, path)
		got, err := b.Get(t.Context(), "r", o.Key)
		if err != nil || got.Terms != o.Terms || !got.Until.Equal(o.Until) || got.Note != o.Note || got.By != o.By || !got.At.Equal(o.At) || got.Removed {
			t.Errorf("after a restart: %+v, %v; want %+v", got, err, o)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go b.Run(ctx)
		<-time.After(2900 * time.Millisecond)
		if got := content(t, b); got != "a=1 b=2" {
			t.Errorf("before the end: %q", got)
		}
		<-time.After(600 * time.Millisecond)
		if got := content(t, b); got != "b=2" {
			t.Errorf("after the end: %q", got)
		}
		cancel()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Changes that depend on what is there are made one after another: none is lost, and an error of the caller changes nothing.
func TestUpdatesLoseNothing(t *testing.T) {
	b, _ := openLocal(t, filepath.Join(t.TempDir(), "overrides"))
	var adders sync.WaitGroup
	for range 8 {
		adders.Go(func() {
			for range 20 {
				if err := b.Update(t.Context(), "r", sluice.StringKey("a"), func(o Override) (Override, error) {
					n, _ := strconv.Atoi(o.Terms) // zero at first
					return set("a", strconv.Itoa(n+1)), nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	adders.Wait()
	refused := errors.New("refused")
	if err := b.Update(t.Context(), "r", sluice.StringKey("a"), func(Override) (Override, error) { return unset("a"), refused }); !errors.Is(err, refused) {
		t.Errorf("a change that the caller refuses: %v", err)
	}
	if got := content(t, b); got != "a=160" {
		t.Errorf("after 160 additions: %s", got)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// losing are records whose replies to changes are lost: the change is made or not, and another server may make one afterwards.
type losing struct {
	*journal
	made, another bool
	lost          int
}

func (l *losing) PutRecords(ctx context.Context, records []redisstore.Record) ([]bool, error) {
	if l.lost == 0 {
		return l.journal.PutRecords(ctx, records)
	}
	l.lost--
	if l.made {
		if _, err := l.journal.PutRecords(ctx, records); err != nil {
			return nil, err
		}
	}
	if l.another {
		o := set("a", "100")
		if _, err := l.journal.PutRecords(ctx, []redisstore.Record{recordOf(&o)}); err != nil {
			return nil, err
		}
	}
	return nil, sluice.ErrUnknownOutcome
}

// A change that depends on what is there is made once if replies are lost. If another one comes between, the outcome is unknown.
func TestUpdatesAreMadeOnce(t *testing.T) {
	for _, x := range []struct {
		made, another bool
		lost          int
		want          string
	}{
		{made: true, lost: 1, want: "a=8"}, {made: false, lost: 3, want: "a=8"}, {made: true, another: true, lost: 1, want: "a=100"}, {another: true, lost: 1, want: "a=100"},
	} {
		b, _ := openLocal(t, "")
		change(t, b, set("a", "7"))
		b.keeper = &losing{journal: b.keeper.(*journal), made: x.made, another: x.another, lost: x.lost}
		err := b.Update(t.Context(), "r", sluice.StringKey("a"), func(o Override) (Override, error) {
			n, _ := strconv.Atoi(o.Terms)
			return set("a", strconv.Itoa(n+1)), nil
		})
		if got := content(t, b); got != x.want || errors.Is(err, sluice.ErrUnknownOutcome) != x.another || !x.another && err != nil {
			t.Errorf("%+v: an addition to 7 leaves %s, %v", x, got, err)
		}
	}
}

// An outage before a change leaves nothing unknown, so the same call may be repeated.
func TestUpdatesThatCannotReadChangeNothing(t *testing.T) {
	b := newBook("redis", policy.NewOverrideTable(), &shared{Records: &failing{fmt.Errorf("silent: %w", sluice.ErrUnknownOutcome)}}, slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"))
	err := b.Update(t.Context(), "r", sluice.StringKey("a"), func(o Override) (Override, error) { return set("a", "1"), nil })
	if err == nil || errors.Is(err, sluice.ErrUnknownOutcome) || !strings.Contains(err.Error(), "silent") {
		t.Errorf("a change whose read fails ends with %v; want the error, with a known outcome", err)
	}
}

// failing are records of a store that fails, or that hangs.
type failing struct{ err error }

func (f *failing) PutRecords(_ context.Context, records []redisstore.Record) ([]bool, error) {
	return make([]bool, len(records)), f.err
}

func (f *failing) RecordsSince(context.Context, redisstore.RecordMark, int) (redisstore.RecordPage, error) {
	return redisstore.RecordPage{}, f.err
}

func (f *failing) RecordsOf(context.Context, []string) ([]redisstore.Record, error) {
	return nil, f.err
}

// slow are records of which a page takes a second, without an end.
type slow struct{ *failing }

func (s slow) RecordsSince(ctx context.Context, _ redisstore.RecordMark, _ int) (redisstore.RecordPage, error) {
	select {
	case <-ctx.Done():
		return redisstore.RecordPage{}, ctx.Err()
	case <-time.After(time.Second):
		return redisstore.RecordPage{More: true}, nil
	}
}

// paged are records of which each page takes most of the patience of a call.
type paged struct {
	*failing
	left int
}

func (s *paged) RecordsSince(ctx context.Context, _ redisstore.RecordMark, _ int) (redisstore.RecordPage, error) {
	select {
	case <-ctx.Done():
		return redisstore.RecordPage{}, ctx.Err()
	case <-time.After(patience - time.Millisecond):
	}
	o := set(strconv.Itoa(s.left), "1")
	s.left--
	return redisstore.RecordPage{Records: []redisstore.Record{recordOf(&o)}, More: s.left > 0}, nil
}

// A server that starts has all overrides before it goes on, however slowly their pages arrive, for half a minute at most.
func TestStartsWithOverridesThatArriveSlowly(t *testing.T) {
	for _, c := range []struct{ pages, want int }{{14, 14}, {100, 15}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			b := OpenShared(t.Context(), &paged{&failing{}, c.pages}, policy.NewOverrideTable(), slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"))
			if n := b.Table.Len(); n != c.want || time.Since(began) > firstPatience+patience {
				t.Errorf("of %d pages, %d were read after %v, want %d", c.pages, n, time.Since(began), c.want)
			}
			if known := b.Status() == ""; known != (c.want == c.pages) {
				t.Errorf("after %d of %d pages, the status is %q", c.want, c.pages, b.Status())
			}
			synctest.Wait()
		})
	}
}

// A change is answered when it is kept, also while a server reads overrides for a long time.
func TestChangesDoNotWaitForReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := OpenShared(t.Context(), slow{&failing{}}, policy.NewOverrideTable(), slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"))
		ctx, cancel := context.WithCancel(t.Context())
		go b.Run(ctx)
		<-time.After(time.Second)
		began := time.Now()
		if _, err := b.Change(t.Context(), []Override{set("a", "1")}); err != nil || time.Since(began) > 2*patience {
			t.Errorf("a change is answered after %v with %v, want %v at most", time.Since(began), err, 2*patience)
		}
		cancel()
		synctest.Wait()
	})
}

// A book says when it cannot read, and when it can again; a change that is not kept is an error.
func TestBookSaysWhenItIsStale(t *testing.T) {
	log := new(bytes.Buffer)
	synctest.Test(t, func(t *testing.T) {
		store := &failing{errors.New("down")}
		b := OpenShared(t.Context(), store, policy.NewOverrideTable(), slog.New(slog.NewTextHandler(log, nil)), telemetry.NewMetrics("test"))
		if !strings.HasPrefix(b.Status(), "overrides: not read since") {
			t.Errorf("while the store is down, the status is %q", b.Status())
		}
		if _, err := b.Change(t.Context(), []Override{set("a", "1")}); err == nil || b.Table.Len() > 0 {
			t.Errorf("a change that is not kept: %v, %d overrides", err, b.Table.Len())
		}
		ctx, cancel := context.WithCancel(t.Context())
		store.err = nil
		go b.Run(ctx)
		<-time.After(time.Second)
		if b.Status() != "" {
			t.Errorf("when the store is back, the status is %q", b.Status())
		}
		cancel()
		synctest.Wait()
	})
	if n := strings.Count(log.String(), "level="); n != 2 {
		t.Errorf("the log has %d lines, want one for the failure and one for its end:\n%s", n, log)
	}
}

// joining are records of a store that keeps one call at a time, and says how many records each call has.
type joining struct {
	failing
	calls chan int
}

func (s *joining) PutRecords(ctx context.Context, records []redisstore.Record) ([]bool, error) {
	s.calls <- len(records)
	found := make([]bool, len(records))
	for i := range records {
		found[i] = records[i].Removed
	}
	return found, errors.Join(s.err, ctx.Err())
}

// Changes that wait while the store keeps an earlier one are kept together, each with its own answer. A caller that leaves does not
// take the other changes with it, and all callers learn of a failure.
func TestChangesThatWaitAreKeptTogether(t *testing.T) {
	const callers = 40
	for _, failure := range []error{nil, errors.New("down")} {
		synctest.Test(t, func(t *testing.T) {
			store := &joining{failing{failure}, make(chan int)}
			b := newBook("redis", policy.NewOverrideTable(), &shared{Records: store}, slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"))
			answers := make(chan error, callers)
			call := func(ctx context.Context, i int) {
				removed := i%2 == 1
				changes := []Override{set(fmt.Sprint("k", i), "1"), set(fmt.Sprint("other", i), "1")}
				changes[1].Removed = removed
				found, err := b.Change(ctx, changes)
				if err == nil && fmt.Sprint(found) != fmt.Sprint([]bool{false, removed}) {
					err = fmt.Errorf("call %d finds %v, want false and %t", i, found, removed)
				}
				answers <- err
			}
			leaving, leave := context.WithCancel(t.Context())
			for i := range callers {
				go call(leaving, i)
				synctest.Wait() // the first call is in the store, and the second one leads the others
			}
			leave()
			for calls, all := 0, 0; all < 2*callers; calls++ {
				n := <-store.calls
				if all += n; calls > 1 || n > mostJoined {
					t.Errorf("call %d of the store has %d records, want two calls", calls, n)
				}
			}
			for range callers {
				if err := <-answers; !errors.Is(err, failure) || failure == nil && err != nil {
					t.Errorf("an answer is %v, want %v", err, failure)
				}
			}
		})
	}
}

// Calls of many changes are not joined beyond a bound, and a call that waits too long for earlier ones is an error.
func TestChangesWaitWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &joining{calls: make(chan int)}
		b := newBook("redis", policy.NewOverrideTable(), &shared{Records: store}, slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"))
		answers := make(chan error, 3)
		for i := range 3 {
			go func() {
				changes := make([]Override, mostJoined)
				for j := range changes {
					changes[j] = set(fmt.Sprint(i, " ", j), "1")
				}
				_, err := b.Change(t.Context(), changes)
				answers <- err
			}()
			synctest.Wait()
		}
		<-time.After(patience + time.Millisecond)
		if n := <-store.calls; n != mostJoined {
			t.Errorf("a call of the store has %d records, want %d", n, mostJoined)
		}
		for range 3 {
			if err := <-answers; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after the patience, an answer is %v, want that the deadline is exceeded", err)
			}
		}
	})
}

// counting are records of a store that keeps all changes at once, and waits before each poll.
type counting struct {
	failing
	polls chan struct{}
}

func (s *counting) RecordsSince(context.Context, redisstore.RecordMark, int) (redisstore.RecordPage, error) {
	s.polls <- struct{}{}
	return redisstore.RecordPage{}, nil
}

// Changes that are kept while a poll is under way are in force after one more poll, however many they are.
func TestChangesThatWaitShareAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{polls: make(chan struct{})}
		b := newBook("redis", policy.NewOverrideTable(), &shared{Records: store}, slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"))
		const callers = 20
		var answered atomic.Int64
		for i := range callers {
			go func() {
				if _, err := b.Change(t.Context(), []Override{set(fmt.Sprint("k", i), "1")}); err != nil {
					t.Errorf("change %d: %v", i, err)
				}
				answered.Add(1)
			}()
			synctest.Wait()
		}
		for i, want := range []int64{0, 1, callers} { // the first poll began before the other changes
			if got := answered.Load(); got != want {
				t.Errorf("after %d polls, %d changes are answered, want %d", i, got, want)
			}
			if i < 2 {
				<-store.polls
				synctest.Wait()
			}
		}
	})
}
