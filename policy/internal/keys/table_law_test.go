package keys

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
)

// value is what an oracle keeps of a key.
type value struct {
	v   *int
	end uint32
}

// often searches as policies do.
func often[V comparable](t *Table[V], k Ref, r *Recent[V]) (V, bool) {
	return t.FindOften(k, new(Buffer), r, func() bool { return true })
}

// A table holds what a map holds, after any changes, with keys of any length and number of parts. Every second table is large, so
// that recent answers are used.
func TestTableIsAMap(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		var table Table[*int]
		oracle := map[ID]value{}
		values := make([]*int, 200)
		for i := range values {
			values[i] = new(int)
		}
		spread := 1 + random.IntN(1000)
		var recent Recent[*int]
		hits := 0
		table.Reserve(random.IntN(spread) + int(seed%2)*large*groupSize)
		key := func() ID {
			text := fmt.Sprint("k", random.IntN(spread))
			if random.IntN(200) == 0 {
				text = string(make([]byte, random.IntN(3)*MaxKey/2))
			}
			return NewID(sluice.EncodedKey(text, 1+random.IntN(2)))
		}
		for step := range 5_000 {
			switch id := key(); random.IntN(4) {
			case 0:
				_, want := oracle[id]
				delete(oracle, id)
				if got := table.Remove(id); got != want {
					t.Fatalf("seed %d, step %d: Remove reports %v, want %v", seed, step, got, want)
				}
			case 1, 2:
				x := value{values[random.IntN(len(values))], uint32(random.IntN(100))}
				oracle[id] = x
				if !table.Set(id, x.v, x.end) {
					t.Fatalf("seed %d, step %d: Set refuses a key of %d bytes", seed, step, len(id.text))
				}
			default:
				want, known := oracle[id]
				v, end, found := table.Get(id)
				if found != known || v != want.v || end != want.end {
					t.Fatalf("seed %d, step %d: Get returns %p, end %d, %v; want %+v, %v", seed, step, v, end, found, want, known)
				}
				k := Ref{text: id.text, parts: int32(id.parts)}
				if v, found := table.Find(k, new(Buffer)); found != known || v != want.v {
					t.Fatalf("seed %d, step %d: Find returns %p, %v; want %p, %v", seed, step, v, found, want.v, known)
				}
				for range answered + 1 { // one of the answers is kept
					before := recent.searches
					if v, found := often(&table, k, &recent); found != known || v != want.v {
						t.Fatalf("seed %d, step %d: FindOften returns %p, %v; want %p, %v", seed, step, v, found, want.v, known)
					}
					if recent.searches == before && recent.answers != nil {
						hits++
					}
				}
			}
		}
		if large := seed%2 == 1; large != (hits > 0) {
			t.Errorf("seed %d: %d searches in a table, large: %v, had a recent answer", seed, hits, large)
		}
		ended, next := table.Ended(50)
		wantEnded, wantNext := 0, uint32(0)
		for _, x := range oracle {
			switch {
			case x.end > 0 && x.end <= 50:
				wantEnded++
			case x.end > 0 && (wantNext == 0 || x.end < wantNext):
				wantNext = x.end
			}
		}
		if len(ended) != wantEnded || next != wantNext {
			t.Errorf("seed %d: %d keys have ended, and the next end is %d; want %d and %d", seed, len(ended), next, wantEnded, wantNext)
		}
		n := 0
		table.Each(func(id ID, v *int) {
			if n++; oracle[id].v != v {
				t.Errorf("seed %d: Each has another value for a key", seed)
			}
		})
		if n != len(oracle) || table.Len() != n || table.IsEmpty() != (n == 0) {
			t.Errorf("seed %d: Each has %d keys, Len is %d, want %d", seed, n, table.Len(), len(oracle))
		}
		for id := range oracle {
			table.Remove(id)
		}
		if !table.IsEmpty() || table.Bytes() != 0 {
			t.Errorf("seed %d: without keys, the table takes %d bytes", seed, table.Bytes())
		}
	}
}

// A key that is too long is refused, and leaves the table as it is.
func TestTableRefusesLongKeys(t *testing.T) {
	var table Table[int]
	if table.Set(NewID(sluice.StringKey(string(make([]byte, MaxKey+1)))), 1, 0) || !table.IsEmpty() {
		t.Error("a key of 65,536 bytes is in the table")
	}
}

// While keys change, readers find a value that the key has or had, and keys that do not change keep their value.
func TestTableChangesUnderReaders(t *testing.T) {
	var table Table[int]
	const keys = 500
	table.Reserve(large * groupSize) // recent answers are used
	id := func(i int) ID { return NewID(sluice.StringKey(fmt.Sprint("key-", i))) }
	for i := range keys {
		table.Set(id(i), i, 0)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var recent Recent[int]
			for n := 0; ; n++ {
				i := n / 12 % keys
				select {
				case <-done:
					return
				default:
				}
				v, found := often(&table, Text(fmt.Sprint("key-", i)), &recent)
				switch {
				case i%2 == 0 && (!found || v != i):
					t.Errorf("key %d, which does not change, has %d, %v", i, v, found)
					return
				case i%2 == 1 && found && v%keys != i:
					t.Errorf("key %d has the value %d of another key", i, v)
					return
				}
			}
		})
	}
	for n := range 50 {
		for i := 1; i < keys; i += 2 {
			if (n+i)%7 == 0 {
				table.Remove(id(i))
				continue
			}
			table.Set(id(i), n%100*keys+i, 0)
		}
	}
	close(done)
	readers.Wait()
}

// A recent answer is for its key only, also if the hash of another key is equal in all that is compared.
func TestRecentAnswersAreOfTheirKey(t *testing.T) {
	for what, change := range map[string]func(*answer[int]){
		"nothing":  func(*answer[int]) {},
		"text":     func(a *answer[int]) { a.text[0]++ },
		"length":   func(a *answer[int]) { a.length-- },
		"parts":    func(a *answer[int]) { a.parts++ },
		"hash":     func(a *answer[int]) { a.hash++ },
		"version":  func(a *answer[int]) { a.version-- },
		"no value": func(a *answer[int]) { a.found = false },
	} {
		var table Table[int]
		table.Reserve(large * groupSize)
		table.Set(NewID(sluice.StringKey("acme")), 1, 0)
		var recent Recent[int]
		for recent.answers == nil {
			often(&table, Text("acme"), &recent)
		}
		for i := range recent.answers {
			if a := &recent.answers[i]; a.length > 0 {
				a.value = 2 // another key's
				change(a)
			}
		}
		own := what == "nothing" || what == "no value"
		v, found := often(&table, Text("acme"), &recent)
		if used := v == 2; used != own || found != (what != "no value") {
			t.Errorf("an answer that differs in %s: %d, %v, want that it is used: %v", what, v, found, own)
		}
	}
}

// Many keys take at most 100 bytes each, whatever their number is, also after each of them has changed several times.
func TestTableIsCompact(t *testing.T) {
	for _, form := range []string{"tenant-%08d", "0b5b7a3e-9d4e-4a54-8d7a-%012d"} { // the second has the form of a UUID
		var table Table[int]
		worst := 0.0
		for i := range 40_000 {
			id := NewID(sluice.StringKey(fmt.Sprintf(form, i)))
			for value := range 3 {
				table.Set(id, i+value, 0)
			}
			if i >= 20_000 {
				worst = max(worst, float64(table.Bytes())/float64(i+1))
			}
		}
		t.Logf("%s: %.1f bytes for each key at most", form, worst)
		if worst > 100 || table.Len() != 40_000 {
			t.Errorf("%s: %d keys take up to %.1f bytes each, want 100 at most", form, table.Len(), worst)
		}
	}
}

// BenchmarkTable finds keys in tables of several sizes: one key, all in turn, and keys that are not there.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{0, 10, 1_000_000} {
		var table Table[int]
		texts := make([]string, max(n, 1))
		random := rand.New(rand.NewPCG(1, 2))
		for i := range texts {
			texts[i] = fmt.Sprintf("tenant-%08d", i)
			if n > 0 {
				table.Set(NewID(sluice.StringKey(texts[i])), i%5, 0)
			}
		}
		random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		for what, text := range map[string]func(i int) string{
			"one":     func(int) string { return texts[0] },
			"all":     func(i int) string { return texts[i%len(texts)] },
			"missing": func(i int) string { return "another-tenant" },
		} {
			b.Run(fmt.Sprintf("%d/%s", n, what), func(b *testing.B) {
				var buffer Buffer
				var recent Recent[int]
				ahead := func() bool { return true }
				i := 0
				for b.Loop() {
					i++
					table.FindOften(Text(text(i)), &buffer, &recent, ahead)
				}
			})
		}
	}
}
