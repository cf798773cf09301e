package decisions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
)

// twins are a memory store and a Redis store that get the same requests at the same
// times, and must answer the same in every field.
type twins struct {
	*testing.T
	rng    *rand.Rand
	memory *memory.Store
	redis  *redisstore.Store
	// versions are of one limit, of which each key holds one state.
	versions []*sluice.Limit
	keys     []twinKey
	// unit and period are the times that matter.
	unit, period int64
	members      uint64
	// resets says that a state which has become fresh is reset, always.
	resets bool

	now     int64
	charges []twinCharge
	notes   []string
}

// twinCharge is what a request took. One that is lost may have nothing in the state,
// as what cost nothing.
type twinCharge struct {
	sluice.Charge
	lost bool
}

// twinKey is a key, and what is known of its state.
type twinKey struct {
	key sluice.Key
	// under are the versions that the state may be kept under.
	under []*sluice.Limit
	// The clock goes back no further than low: the state was fresh then, and may have
	// been forgotten since. high is the latest time that the state may know.
	low, high int64
	// used is how many requests may have left something since it was fresh.
	used int
}

// changed returns a client that replaces texts in the scripts that it sends.
func changed(client redisstore.Client, texts ...string) redisstore.Client {
	change := strings.NewReplacer(texts...)
	scripts := redistest.NewScripts(func(source string) (string, error) { return change.Replace(source), nil })
	return redistest.WithScripts(client, scripts, func() []string { return nil })
}

// unhurried lets every second walk do without the shorter scripts for plain requests.
func unhurried(seed uint64) []string {
	if seed%2 == 0 {
		return nil
	}
	return []string{"#ARGV == 2", "#ARGV == -1"}
}

// newTwins returns stores for a walk. Numbers in the scripts may be changed, to come
// to their ends sooner.
func newTwins(t *testing.T, client redisstore.Client, seed uint64, change ...string) *twins {
	t.Helper()
	w := &twins{T: t, rng: rand.New(rand.NewPCG(seed, 1)), now: 1_750_000_000_000_000 + int64(seed)*999_983}
	var err error
	if w.memory, err = memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return w.now }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.memory.Close() })
	client = changed(redistest.WithClock(client, func() int64 { return w.now }), change...)
	prefix := strings.ReplaceAll(fmt.Sprintf("%s-%d", t.Name(), seed), "/", "-")
	if w.redis, err = redisstore.New(client, redisstore.Options{Prefix: prefix}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		w.keys = append(w.keys, twinKey{key: sluice.StringKey(name)})
	}
	return w
}

// below returns a number from 0 to n-1.
func (w *twins) below(n int64) int64 { return w.rng.Int64N(max(n, 1)) }

func (w *twins) one(of ...int64) int64 { return of[w.below(int64(len(of)))] }

func (w *twins) oneIn(n int64) bool { return w.below(n) == 0 }

// walk goes some steps.
func (w *twins) walk(steps int) {
	w.Helper()
	for range steps {
		w.pass()
		w.forget()
		switch k := &w.keys[w.below(int64(len(w.keys)))]; w.below(20) {
		case 0:
			w.reset(k)
		case 1, 2:
			w.batch()
		case 3, 4, 5, 6, 7:
			w.end()
		default:
			w.decide(k)
		}
		w.forget()
		if w.Failed() {
			w.Fatalf("the last steps:\n%s", strings.Join(w.notes[max(0, len(w.notes)-25):], "\n"))
		}
	}
}

// fill makes a long state of small charges, most of one unit.
func (w *twins) fill(n int) {
	w.Helper()
	for range n {
		w.now += w.below(w.unit)
		r := sluice.Request{Limit: w.versions[0], Key: w.keys[0].key, Cost: w.one(1, 1, 1, 1+w.below(3)), Member: w.members + 1}
		w.members++
		w.send(&w.keys[0], &r)
	}
}

// note keeps a step for the message of a failure.
func (w *twins) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf("%d: ", w.now)+fmt.Sprintf(format, args...))
}

// pass lets time pass, or not, or turns it back by little or much.
func (w *twins) pass() {
	step := int64(0)
	switch w.below(20) {
	case 0, 1, 2, 3, 4:
	case 5, 6, 7:
		step = w.one(1, 1, 2, 1000)
	case 8, 9, 10:
		step = w.unit + w.one(-1, 0, 1)
	case 11, 12:
		step = w.below(3*w.unit + 1)
	case 13, 14:
		step = w.below(w.period + 1)
	case 15:
		step = w.period + w.one(-1, 0, 1)
	case 16:
		if w.oneIn(4) {
			step = w.below(5 * w.period)
		}
	default:
		step = -w.one(1, w.unit, w.below(w.unit+1), w.below(w.period+1), w.period, w.period+1, w.below(4*w.period))
	}
	low := int64(0)
	for i := range w.keys {
		low = max(low, w.keys[i].low)
	}
	if step > 0 && w.now > 3e15 {
		step = 0
	}
	w.now = max(w.now+step, low)
	for i := range w.charges {
		w.charges[i].lost = w.charges[i].lost || w.charges[i].Receipt.At > w.now
	}
}

// forget finds the states that equal fresh ones: a store may forget them.
func (w *twins) forget() {
	w.Helper()
	again := true
	for again {
		again = false
		for i := range w.keys {
			k := &w.keys[i]
			k.high = max(k.high, w.now)
			fresh := false
			for _, l := range k.under {
				fresh = fresh || w.peek(l, k.key).ResetAfter == 0
			}
			switch {
			case !fresh:
			case w.resets || w.oneIn(3):
				w.reset(k)
			default:
				k.low = k.high
				again = again || w.now < k.low
				w.now = max(w.now, k.low)
			}
		}
	}
}

func (w *twins) peek(l *sluice.Limit, k sluice.Key) sluice.Decision {
	w.Helper()
	d, err := w.memory.Decide(context.Background(), sluice.Request{Limit: l, Key: k, Peek: true})
	if err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *twins) reset(k *twinKey) {
	w.Helper()
	w.note("reset %v", k.key)
	k.under, k.low, k.high, k.used = nil, 0, 0, 0
	for i := range w.charges {
		w.charges[i].lost = w.charges[i].lost || w.charges[i].Key == k.key
	}
	for _, s := range w.stores() {
		if err := s.Reset(context.Background(), w.versions[0], k.key); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *twins) stores() [2]sluice.Store { return [2]sluice.Store{w.memory, w.redis} }

// request makes up a request about a key.
func (w *twins) request(k *twinKey) sluice.Request {
	l := w.versions[w.below(int64(len(w.versions)))]
	if !w.oneIn(3) && len(k.under) > 0 {
		l = k.under[0]
	}
	c := l.Capacity()
	r := sluice.Request{Limit: l, Key: k.key, Cost: w.one(0, 1, 1, 1, 1, 1, 2, 1+w.below(5), 1+w.below(c), 1+w.below(c), c, c+1, math.MaxInt64)}
	if w.oneIn(4) {
		r.Floor = w.one(1, w.below(c+1), c, c+1, math.MaxInt64)
	}
	if w.oneIn(3) {
		wait := w.one(1, w.below(w.unit+1), w.below(w.period+1), 3*w.period, 1<<40)
		r.MaxWait = time.Duration(w.one(-1, 1, wait*1000))
	}
	r.Peek = w.oneIn(8)
	r.Debit = l.TakesDebits() && w.oneIn(4)
	if r.Overdraw = l.TakesDebits() && !r.Debit && w.oneIn(4); r.Overdraw && w.oneIn(2) {
		r.Cost = w.one(2*c, 1<<17, 1<<30, 1<<52)
	}
	if _, ok := l.Algorithm().(sluice.Concurrency); ok && (!r.Peek || w.oneIn(2)) {
		w.members++
		r.Member = w.members
		if w.oneIn(3) {
			r.Member -= min(uint64(w.below(8)), r.Member-1)
		}
		if r.Member%5 == 0 {
			r.Member *= math.MaxUint64 / 5
		}
	}
	return r
}

// took keeps what a decision charged.
func (w *twins) took(r *sluice.Request, d *sluice.Decision) {
	if d.Allowed && !r.Peek {
		w.charges = append(w.charges, twinCharge{r.Charge(d), r.Cost == 0})
	}
}

func (w *twins) decide(k *twinKey) {
	w.Helper()
	r := w.request(k)
	w.send(k, &r)
}

// send decides one request.
func (w *twins) send(k *twinKey, r *sluice.Request) {
	w.Helper()
	var got [2]sluice.Decision
	for i, s := range w.stores() {
		var err error
		if got[i], err = s.Decide(context.Background(), *r); err != nil {
			w.Errorf("store %d: %s: %v", i, describe(r), err)
		}
	}
	w.note("%s: %+v", describe(r), got[0])
	if got[0] != got[1] {
		w.Errorf("%s at %d:\nmemory %+v\nredis  %+v", describe(r), w.now, got[0], got[1])
	}
	if r.Cost > 0 && !r.Peek {
		if !r.Debit { // a debit may leave the state under its numbers
			k.under = nil
		}
		k.under = append(slices.Clone(k.under), r.Limit)
		k.used++
	}
	w.took(r, &got[0])
}

func (w *twins) batch() {
	w.Helper()
	rs := make([]sluice.Request, 2+w.below(4))
	texts := make([]string, len(rs))
	k := w.below(int64(len(w.keys)))
	for i := range rs {
		if w.oneIn(3) {
			k = w.below(int64(len(w.keys)))
		}
		key := &w.keys[k]
		rs[i] = w.request(key)
		rs[i].Shadow = w.oneIn(8)
		if w.oneIn(2) {
			rs[i].Cost = 1
		}
		if !rs[i].Peek && rs[i].Cost > 0 {
			key.under = append(slices.Clone(key.under), rs[i].Limit)
			key.used++
		}
		texts[i] = describe(&rs[i])
	}
	var got [2][]sluice.Decision
	for i, s := range w.stores() {
		got[i] = make([]sluice.Decision, len(rs))
		if err := s.DecideAll(context.Background(), rs, got[i]); err != nil {
			w.Errorf("store %d: %s: %v", i, strings.Join(texts, "; "), err)
		}
	}
	allowed := true
	for i := range rs {
		allowed = allowed && (got[0][i].Allowed || rs[i].Shadow)
		w.note("  %s: %+v", texts[i], got[0][i])
		for j := range got {
			if rs[i].Peek { // nothing was charged
				got[j][i].Receipt = sluice.Receipt{}
			}
		}
		if got[0][i] != got[1][i] {
			w.Errorf("number %d of a batch at %d, %s:\nmemory %+v\nredis  %+v", i, w.now, texts[i], got[0][i], got[1][i])
		}
	}
	for i := range rs {
		if allowed || rs[i].Shadow || rs[i].Debit && rs[i].Cost > 0 {
			w.took(&rs[i], &got[0][i])
		}
	}
}

// end ends an earlier charge, most often one of the last.
func (w *twins) end() {
	w.Helper()
	if len(w.charges) == 0 {
		return
	}
	i := len(w.charges) - 1 - int(w.below(w.one(1, 4, int64(len(w.charges))))%int64(len(w.charges)))
	c := w.charges[i]
	w.charges = slices.Delete(w.charges, i, i+1)
	if len(w.charges) > 200 {
		w.charges = w.charges[100:]
	}
	var k *twinKey
	for j := range w.keys {
		if w.keys[j].key == c.Key {
			k = &w.keys[j]
		}
	}
	var call func(s sluice.Store) error
	var what string
	_, leases := c.Limit.Algorithm().(sluice.Concurrency)
	switch {
	case w.oneIn(3):
		what = "cancel"
		call = func(s sluice.Store) error { return s.Cancel(context.Background(), c.Charge) }
	case leases:
		held := time.Duration(w.one(-1, 0, 1, w.below(w.period+1), w.below(w.unit+1), 1<<33)) * time.Microsecond
		what = fmt.Sprintf("release after %d", held)
		call = func(s sluice.Store) error { return s.Release(context.Background(), c.Charge, held) }
	case w.oneIn(3) && c.Limit.TakesDebits():
		give := w.one(1, c.Cost, 1+w.below(c.Limit.Capacity()), 1<<40)
		what = fmt.Sprintf("give %d back", give)
		newest := sluice.Charge{Limit: c.Limit, Key: c.Key, Cost: give, Receipt: sluice.Receipt{At: oracle.Newest}}
		call = func(s sluice.Store) error { return s.Settle(context.Background(), newest, 0) }
	default:
		actual := w.one(0, c.Cost/2, c.Cost, c.Cost+1, c.Cost+w.below(2*c.Limit.Capacity()), 1<<40, math.MaxInt64)
		what = fmt.Sprintf("settle at %d", actual)
		call = func(s sluice.Store) error { return s.Settle(context.Background(), c.Charge, actual) }
	}
	var got [2]error
	for i, s := range w.stores() {
		got[i] = call(s)
	}
	w.note("%s %v %v cost %d member %d at %d: %v", what, c.Limit.Algorithm(), c.Key, c.Cost, c.Member, c.Receipt.At, got[0])
	for _, err := range got {
		if err != nil && !errors.Is(err, sluice.ErrLeaseLost) && !errors.Is(err, sluice.ErrActed) {
			w.Errorf("%s failed: %v", what, err)
		}
	}
	k.under = append(slices.Clone(k.under), c.Limit) // what charges more may make a state
	k.used++
	if (got[0] == nil) != (got[1] == nil) {
		w.Errorf("%s at %d:\nmemory %v\nredis  %v", what, w.now, got[0], got[1])
	}
}
