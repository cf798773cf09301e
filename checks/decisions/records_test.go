package decisions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// follower reads the changes of records, as a server does.
type follower struct {
	store   *redisstore.Records
	mark    redisstore.RecordMark
	known   map[string]string
	repeats int
}

// follow reads all changes, in pages of some records.
func (f *follower) follow(ctx context.Context, most int) error {
	var all map[string]string // while all are read again
	for range 1000 {          // a program that always begins again reads nothing
		first := f.mark == redisstore.RecordMark{}
		page, err := f.store.RecordsSince(ctx, f.mark, most)
		if err != nil {
			return err
		}
		if page.Again {
			f.repeats++
			if f.mark, all = (redisstore.RecordMark{}), map[string]string{}; !first {
				continue
			}
		}
		into := f.known
		if all != nil {
			into = all
		}
		for _, r := range page.Records {
			if into[r.Name] = r.Text; r.Removed {
				delete(into, r.Name)
			}
		}
		if f.mark = page.Next; !page.More {
			if all != nil {
				f.known = all
			}
			return nil
		}
	}
	return errors.New("there are always more records")
}

// recordsAt connects to the records of a server.
func recordsAt(t *testing.T, to adapters.Route, o redisstore.Options) *redisstore.Records {
	t.Helper()
	s, err := redisstore.New(adapters.Rueidis.Dial(t, to), o)
	if err != nil {
		t.Fatal(err)
	}
	return s.Records("records")
}

// recordServers are a single server and a cluster.
func recordServers(t *testing.T) map[string]func() *redisstore.Records {
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	dial := func(to adapters.Route, o redisstore.Options) func() *redisstore.Records {
		return func() *redisstore.Records { return recordsAt(t, to, o) }
	}
	return map[string]func() *redisstore.Records{
		"one server": dial(adapters.ToSocket(server), redisstore.Options{}),
		"a cluster":  dial(adapters.ToCluster(cluster), redisstore.Options{Cluster: true}),
	}
}

// TestRecordsReachEveryFollower: after random changes, programs that read at random moments, in pages of any size, have exactly
// the records that a map has.
func TestRecordsReachEveryFollower(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for name, dial := range recordServers(t) {
		random := rand.New(rand.NewPCG(1, 1))
		writer, truth := dial(), map[string]string{}
		followers := []*follower{{store: dial(), known: map[string]string{}}, {store: dial(), known: map[string]string{}}, {store: dial(), known: map[string]string{}}}
		for step := range 300 {
			var batch []redisstore.Record
			var want []bool
			seen := map[string]bool{}
			for range 1 + random.IntN(20) {
				r := redisstore.Record{Name: fmt.Sprintf("rule %d\x00}{", random.IntN(60)), Text: strings.Repeat("x", random.IntN(5)) + fmt.Sprint(step), Removed: random.IntN(3) == 0}
				if seen[r.Name] {
					continue
				}
				seen[r.Name] = true
				_, known := truth[r.Name]
				if truth[r.Name] = r.Text; r.Removed {
					delete(truth, r.Name)
				}
				batch, want = append(batch, r), append(want, known)
			}
			found, err := writer.PutRecords(ctx, batch)
			if err != nil || fmt.Sprint(found) != fmt.Sprint(want) {
				t.Fatalf("%s, step %d: PutRecords returns %v, %v; want %v", name, step, found, err, want)
			}
			for i, f := range followers {
				if random.IntN(3) != 0 && step < 299 {
					continue
				}
				if err := f.follow(ctx, 1+random.IntN(30)); err != nil || !maps.Equal(f.known, truth) {
					t.Fatalf("%s, step %d: program %d has %d records, %v; want %d", name, step, i, len(f.known), err, len(truth))
				}
			}
		}
		for i, f := range followers {
			if f.repeats > 0 {
				t.Errorf("%s: program %d had to read all records again", name, i)
			}
		}
		late := &follower{store: dial(), known: map[string]string{}}
		if err := late.follow(ctx, 7); err != nil || !maps.Equal(late.known, truth) {
			t.Errorf("%s: a new program has %d records, %v; want %d", name, len(late.known), err, len(truth))
		}
		of, err := writer.RecordsOf(ctx, []string{"rule 1\x00}{", "none"})
		if text, known := truth["rule 1\x00}{"]; err != nil || of[0].Text != text || of[0].Removed == known || !of[1].Removed {
			t.Errorf("%s: RecordsOf returns %+v, %v; want %q", name, of, err, text)
		}
	}
}

// TestRecordsCountConcurrentChanges: programs that add to a number at the same time, each to the record that it has read, lose no
// addition. A record that is not as it was read stays, with all others of the call.
func TestRecordsCountConcurrentChanges(t *testing.T) {
	for name, dial := range recordServers(t) {
		var adders sync.WaitGroup
		for range 4 {
			store := dial()
			adders.Go(func() {
				for added := 0; added < 15; {
					of, err := store.RecordsOf(t.Context(), []string{"sum"})
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := strconv.Atoi(of[0].Text) // zero at first
					switch _, err = store.PutRecords(t.Context(), []redisstore.Record{{Name: "sum", Text: strconv.Itoa(n + 1), Was: &of[0]}}); {
					case err == nil:
						added++
					case !errors.Is(err, redisstore.ErrRecordChanged):
						t.Error(err)
						return
					}
				}
			})
		}
		adders.Wait()
		store := dial()
		none, was := redisstore.Record{Removed: true}, redisstore.Record{Text: "60"}
		for i, step := range []struct {
			put     []redisstore.Record
			changed bool
		}{
			{[]redisstore.Record{{Name: "other", Text: "x"}, {Name: "sum", Text: "x", Was: &none}}, true},
			{[]redisstore.Record{{Name: "other", Text: "x", Was: &was}}, true},
			{[]redisstore.Record{{Name: "sum", Removed: true, Was: &was}, {Name: "other", Text: "y", Was: &none}}, false},
			{[]redisstore.Record{{Name: "sum", Text: "z", Was: &was}}, true},
			{[]redisstore.Record{{Name: "sum", Text: "z", Was: &none}}, false},
		} {
			if _, err := store.PutRecords(t.Context(), step.put); errors.Is(err, redisstore.ErrRecordChanged) != step.changed || err != nil && !step.changed {
				t.Errorf("%s, step %d: %v", name, i, err)
			}
		}
		if of, err := store.RecordsOf(t.Context(), []string{"sum", "other"}); err != nil || of[0].Text != "z" || of[1].Text != "y" {
			t.Errorf("%s: the records are %+v, %v", name, of, err)
		}
	}
}

// TestRecordsAreReadAgainAfterALoss: the data of the server are lost, or are of an earlier time. All programs notice at their next
// reading.
func TestRecordsAreReadAgainAfterALoss(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := redistest.Start(t)
	store := recordsAt(t, adapters.ToSocket(server), redisstore.Options{})
	put := func(name string, removed bool) {
		t.Helper()
		if _, err := store.PutRecords(ctx, []redisstore.Record{{Name: name, Text: name, Removed: removed}}); err != nil {
			t.Fatal(err)
		}
	}
	f := &follower{store: store, known: map[string]string{}}
	expect := func(what, want string, repeats int) {
		t.Helper()
		if err := f.follow(ctx, 2); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(f.known); got != want || f.repeats != repeats {
			t.Errorf("%s: the program has %s and has read all %d times; want %s, %d times", what, got, f.repeats, want, repeats)
		}
	}
	expect("nothing yet", "map[]", 0)
	for _, name := range []string{"a", "b", "c"} {
		put(name, false)
	}
	expect("three records", "map[a:a b:b c:c]", 0)
	if _, err := server.Do(ctx, "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	expect("all lost", "map[]", 1)
	put("d", false)
	expect("a record after the loss", "map[d:d]", 1)
	meta, err := server.Text(ctx, "GET", "sluice{%.records}meta")
	if err != nil {
		t.Fatal(err)
	}
	put("e", false)
	expect("one more", "map[d:d e:e]", 1)
	// A replica takes over that lacks the last change.
	if _, err := server.Do(ctx, "SET", "sluice{%.records}meta", meta); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do(ctx, "ZREMRANGEBYRANK", "sluice{%.records}log", "1", "1"); err != nil {
		t.Fatal(err)
	}
	expect("the last change lost", "map[d:d]", 2)
}

// TestRecordsEnd: a record leaves the server at its end, a removal after a minute, and both leave nothing behind.
func TestRecordsEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := redistest.Start(t)
	store := recordsAt(t, adapters.ToSocket(server), redisstore.Options{})
	var batch []redisstore.Record
	for i := range 100 {
		r := redisstore.Record{Name: fmt.Sprint(i), Until: time.Now().Add(200 * time.Millisecond)}
		if i%2 == 0 {
			r.Until, r.For = time.Time{}, 200*time.Millisecond
		}
		batch = append(batch, r)
	}
	if _, err := store.PutRecords(ctx, batch); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := store.PutRecords(ctx, []redisstore.Record{{Name: "other"}}); err != nil {
			t.Fatal(err)
		}
		n, err := server.Int(ctx, "ZCARD", "sluice{%.records}log")
		if err != nil {
			t.Fatal(err)
		}
		keys, err := server.Int(ctx, "DBSIZE")
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && keys == 3 { // the records' meta text, the log, and the other record
			return
		}
	}
}

// TestRecordsAreReadPastEndedOnes: a program that begins to read gets all records, once, although records on later pages have ended,
// whether somebody has put one since or nobody has.
func TestRecordsAreReadPastEndedOnes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := redistest.Start(t)
	store := recordsAt(t, adapters.ToSocket(server), redisstore.Options{})
	early := follower{store: store, known: map[string]string{}}
	for _, r := range []redisstore.Record{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "ends", For: 10 * time.Millisecond}, {Name: "d"}} {
		if _, err := store.PutRecords(ctx, []redisstore.Record{r}); err != nil {
			t.Fatal(err)
		}
		if r.Name == "b" {
			if err := early.follow(ctx, 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := int64(0); n != 7; { // four records, the meta text, the log, and the ends
		var err error
		if n, err = server.Int(ctx, "DBSIZE"); err != nil {
			t.Fatal(err)
		}
	}
	idle := early
	idle.known = maps.Clone(early.known)
	expect := func(want string, early *follower) {
		t.Helper()
		late := follower{store: store, known: map[string]string{}}
		for name, f := range map[string]*follower{"begins after the end": &late, "began before it": early} {
			err := f.follow(ctx, 2)
			if got := fmt.Sprint(f.known); err != nil || got != want || f.repeats > 1 || f == &late && f.repeats > 0 {
				t.Fatalf("a program that %s has read %s, all %d times again, with the error %v; want %s", name, got, f.repeats, err, want)
			}
		}
	}
	expect("map[a: b: c: d:]", &early)
	if _, err := store.PutRecords(ctx, []redisstore.Record{{Name: "e"}}); err != nil { // the log drops the ended one
		t.Fatal(err)
	}
	expect("map[a: b: c: d: e:]", &idle)
}

// TestRecordsOfSpaces: records of one space are not in another one, and their ages are by the clock of the server.
func TestRecordsOfSpaces(t *testing.T) {
	server := redistest.Start(t)
	now := time.Now().Add(-time.Hour).UnixMicro()
	s, err := redisstore.New(redistest.WithClock(adapters.Rueidis.Dial(t, adapters.ToSocket(server)), func() int64 { return now }), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Records("a"), s.Records("b")
	for name, of := range map[string]*redisstore.Records{"one": a, "other": b} {
		if _, err := of.PutRecords(t.Context(), []redisstore.Record{{Name: name, For: time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
	now += 400_000
	for name, of := range map[string]*redisstore.Records{"one": a, "other": b} {
		page, err := of.RecordsSince(t.Context(), redisstore.RecordMark{}, 10)
		if err != nil || len(page.Records) != 1 || page.Records[0].Name != name || page.Records[0].Age.Round(time.Millisecond) != 400*time.Millisecond {
			t.Errorf("the space of record %s has %+v, %v; want it, 400 ms old", name, page.Records, err)
		}
	}
}
