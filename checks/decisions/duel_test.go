package decisions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
)

// An arena is where two stores get the same requests.
type arena struct {
	server *redistest.Server
	conn   *redistest.Conn
	count  int // of duels
}

func newArena(t *testing.T) *arena {
	t.Helper()
	s := redistest.Start(t)
	conn, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &arena{server: s, conn: conn}
}

// key returns the one key there is of a pattern.
func (a *arena) key(t *testing.T, pattern string) string {
	t.Helper()
	reply, err := a.conn.Do(t.Context(), "KEYS", pattern)
	keys, ok := reply.([]any)
	if err != nil || !ok || len(keys) != 1 {
		t.Fatalf("the keys are %q, %v", reply, err)
	}
	return keys[0].(string)
}

func (a *arena) int(t *testing.T, command ...string) int64 {
	t.Helper()
	reply, err := a.conn.Do(t.Context(), command...)
	n, ok := reply.(int64)
	if err != nil || !ok {
		t.Fatalf("the reply to %v is %v, %v; want a number", command, reply, err)
	}
	return n
}

// clock returns the server's time in microseconds.
func (a *arena) clock(t *testing.T) int64 {
	t.Helper()
	reply, err := a.conn.Do(t.Context(), "TIME")
	parts, ok := reply.([]any)
	if err != nil || !ok || len(parts) != 2 {
		t.Fatalf("the reply to TIME is %v, %v", reply, err)
	}
	var now int64
	if _, err := fmt.Sscan(fmt.Sprintf("%s%06s", parts...), &now); err != nil {
		t.Fatal(err)
	}
	return now
}

// lifetime returns how long the key of a pattern lives that was written between two
// times. What is added to it so that it does not expire in a test is taken off.
func (a *arena) lifetime(t *testing.T, pattern string, before, after int64) (least, most time.Duration) {
	t.Helper()
	end := a.int(t, "PEXPIRETIME", a.key(t, pattern)) - 1e14
	return time.Duration(end*1000-after) * time.Microsecond, time.Duration(end*1000-before) * time.Microsecond
}

// plainClient sends each call over one connection. It is for one goroutine.
type plainClient struct{ conn *redistest.Conn }

func (c plainClient) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	return c.call(ctx, "EVALSHA", sha, keys, args)
}

func (c plainClient) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	return c.call(ctx, "EVAL", source, keys, args)
}

func (c plainClient) call(ctx context.Context, name, script string, keys, args []string) (string, error) {
	all := append([]string{name, script, strconv.Itoa(len(keys))}, keys...)
	return c.text(c.conn.Do(ctx, append(all, args...)...))
}

func (plainClient) Masters(context.Context) ([]redisstore.Master, error) {
	return []redisstore.Master{{}}, nil
}

func (c plainClient) Info(ctx context.Context, _ string) (string, error) {
	return c.text(c.conn.Do(ctx, "INFO"))
}

func (c plainClient) Scan(ctx context.Context, _ string, cursor uint64, match string, count int) ([]string, uint64, error) {
	reply, err := c.conn.Do(ctx, "SCAN", strconv.FormatUint(cursor, 10), "MATCH", match, "COUNT", strconv.Itoa(count))
	parts, ok := reply.([]any)
	if err != nil || !ok || len(parts) != 2 {
		return nil, 0, fmt.Errorf("SCAN: %v, %w", reply, err)
	}
	var keys []string
	for _, key := range parts[1].([]any) {
		keys = append(keys, key.(string))
	}
	next, err := strconv.ParseUint(parts[0].(string), 10, 64)
	return keys, next, err
}

func (plainClient) text(reply any, err error) (string, error) {
	var answer redistest.Error
	if errors.As(err, &answer) {
		return "", &redisstore.ServerError{Text: string(answer)}
	}
	text, ok := reply.(string)
	if err == nil && !ok {
		err = fmt.Errorf("the reply is %v", reply)
	}
	return text, err
}

// A duel sends the memory store and the Redis store the same random requests, given by the
// seed, and compares what they answer.
type duel struct {
	*testing.T
	a      *arena
	rnd    *rand.Rand
	now    int64
	memory *memory.Store
	redis  *redisstore.Store
	limits []*sluice.Limit // their name is the same
	keys   []sluice.Key
	live   []sluice.Charge
	retry  int64 // what the latest denial said
	bans   []*sluice.Ban
	steps  []string
}

// duels runs duels with limits of an algorithm.
func (a *arena) duels(t *testing.T, algorithm func(d *duel) sluice.Algorithm) {
	t.Helper()
	const each = 120
	for seed := range uint64(redistest.Times(t, 6)) {
		d := a.duel(t, seed, algorithm)
		for range each {
			d.step()
		}
		if t.Failed() {
			return
		}
	}
}

// duel begins a duel on keys that no request has used.
func (a *arena) duel(t *testing.T, seed uint64, algorithm func(d *duel) sluice.Algorithm) *duel {
	t.Helper()
	a.count++
	d := &duel{T: t, a: a, rnd: rand.New(rand.NewPCG(seed, 0)), now: 1_800_000_000_000_000}
	d.now += d.rnd.Int64N(1_000_000)
	var err error
	if d.memory, err = memory.New(memory.Options{Clock: func() int64 { return d.now }}); err != nil {
		t.Fatal(err)
	}
	client := redistest.WithClock(plainClient{a.conn}, func() int64 { return d.now })
	if d.redis, err = redisstore.New(client, redisstore.Options{Prefix: fmt.Sprintf("duel-%d", a.count)}); err != nil {
		t.Fatal(err)
	}
	for want := 1 + d.rnd.IntN(3); len(d.limits) < want; {
		if l, err := sluice.NewLimit("duel", algorithm(d)); err == nil {
			d.limits = append(d.limits, l)
		}
	}
	d.keys = []sluice.Key{sluice.StringKey("a"), sluice.StringKey("b")}
	return d
}

// upTo returns 1 to n, of any size.
func (d *duel) upTo(n int64) int64 { return 1 + d.rnd.Int64N(1+n>>d.rnd.IntN(53)) }

func (d *duel) one(of ...int64) int64 { return of[d.rnd.IntN(len(of))] }

func (d *duel) limit() *sluice.Limit { return d.limits[d.rnd.IntN(len(d.limits))] }

func (d *duel) key() sluice.Key { return d.keys[d.rnd.IntN(16)/15*(len(d.keys)-1)] }

// step does something, and compares what the state of a key is then.
func (d *duel) step() {
	switch d.rnd.IntN(16) {
	case 0, 1:
		d.end(d.rnd.IntN(4) > 0)
	case 2:
		d.batch()
	case 15:
		d.plainBatch()
	case 3:
		if d.rnd.IntN(8) == 0 {
			d.reset(d.limit(), d.key())
		} else {
			d.crowd()
		}
	case 4, 5, 6, 7:
		d.pass()
		return
	default:
		d.decide(d.request())
	}
	d.look(d.limit(), d.key())
}

// pace returns the time that a unit takes, and that a limit takes to be as new.
func pace(l *sluice.Limit) (unit, all int64) {
	var r sluice.Rate
	switch a := l.Algorithm().(type) {
	case sluice.TokenBucket:
		r = a.Rate
	case sluice.LeakyBucket:
		r = a.Rate
	case sluice.FixedWindow:
		r = a.Rate
	case sluice.SlidingCounter:
		r = a.Rate
	}
	micros := r.Period().Microseconds()
	each := float64(micros) / float64(r.Count())
	return max(1, int64(each)), int64(min(float64(1<<50), max(float64(micros), each*float64(l.Capacity()))))
}

// pass lets the clock go on, or back.
func (d *duel) pass() {
	unit, all := pace(d.limit())
	by := d.one(1, 2, 1+d.rnd.Int64N(20), unit, 1+d.rnd.Int64N(unit), unit+1, unit*(1+d.rnd.Int64N(10)),
		1+d.rnd.Int64N(all), all, all+1, all*(1+d.rnd.Int64N(4)), d.retry, d.retry, max(0, d.retry-1))
	if d.rnd.IntN(4) == 0 {
		d.forget()
		by = -by
	}
	d.now = max(1_000_000_000_000_000, min(d.now+by, 1<<52))
	d.note("the time is %d", d.now)
}

// forget resets what is as new. Stores may have forgotten it, which shows with a
// clock that goes back.
func (d *duel) forget() {
	for _, k := range d.keys {
		for _, l := range d.states() {
			if d.fresh(l, k) {
				d.reset(l, k)
			}
		}
	}
}

// states returns a limit of each algorithm that there is: each has a state of its own.
func (d *duel) states() (ls []*sluice.Limit) {
	for _, l := range d.limits {
		if !slices.ContainsFunc(ls, func(o *sluice.Limit) bool { return o.ID() == l.ID() }) {
			ls = append(ls, l)
		}
	}
	return ls
}

// fresh reports whether a key has no state of a limit to speak of, under any numbers.
func (d *duel) fresh(of *sluice.Limit, k sluice.Key) bool {
	for _, l := range d.limits {
		if l.ID() != of.ID() {
			continue
		}
		if got := d.look(l, k); got.ResetAfter > 0 || !got.Allowed {
			return false
		}
	}
	return true
}

func (d *duel) request() sluice.Request {
	r := sluice.Request{Limit: d.limit(), Key: d.key()}
	most := r.Limit.Capacity()
	r.Cost = d.one(0, 1, 1, 1, 2, 3, most, most-1, most+1, most/2, 1+d.rnd.Int64N(most), 1+d.rnd.Int64N(most), d.upTo(most),
		d.one(1<<53-2, 1<<53-1, 1<<53, 1<<53+1, math.MaxInt64))
	if d.rnd.IntN(3) == 0 {
		r.Floor = d.one(1, 2, most/2, most, most-1, d.rnd.Int64N(most), math.MaxInt64)
	}
	unit, all := pace(r.Limit)
	if d.rnd.IntN(2) == 0 {
		wait := d.one(-1, 1, unit, unit-1, d.rnd.Int64N(3*unit), all, d.rnd.Int64N(all), d.retry, d.retry-1, 3*all, 1<<51)
		// Times of more than 2^53 microseconds are not exact in the scripts.
		if r.MaxWait = time.Duration(min(wait, 1<<51)) * time.Microsecond; wait < 0 {
			r.MaxWait = sluice.NoWait
		}
	}
	r.Peek = d.rnd.IntN(10) == 0
	r.Debit = r.Limit.TakesDebits() && d.rnd.IntN(4) == 0
	if r.Overdraw = r.Limit.TakesDebits() && !r.Debit && d.rnd.IntN(4) == 0; r.Overdraw && d.rnd.IntN(2) == 0 {
		r.Cost = d.one(2*most, 1<<17, 1<<17+1, 1<<40, 1<<52)
	}
	if n := len(d.bans); n > 0 {
		r.Ban = d.bans[d.rnd.IntN(n)]
	}
	return r
}

// decide decides in both, and keeps what was charged.
func (d *duel) decide(r sluice.Request) sluice.Decision {
	d.note("%s", describe(&r))
	want, wantErr := d.memory.Decide(d.Context(), r)
	got, err := d.redis.Decide(d.Context(), r)
	d.compare(got, want, err, wantErr)
	if !want.Allowed {
		d.retry = max(1, want.RetryAfter.Microseconds())
	} else if !r.Peek {
		d.live = append(d.live, r.Charge(&want))
	}
	return want
}

// look peeks at what there is, and takes nothing.
func (d *duel) look(l *sluice.Limit, k sluice.Key) sluice.Decision {
	r := sluice.Request{Limit: l, Key: k, Peek: true}
	want, wantErr := d.memory.Decide(d.Context(), r)
	got, err := d.redis.Decide(d.Context(), r)
	d.note("a look at %v", l)
	d.compare(got, want, err, wantErr)
	d.steps = d.steps[:len(d.steps)-1]
	return want
}

// batch decides several requests as one.
func (d *duel) batch() {
	rs := make([]sluice.Request, 2+d.rnd.IntN(3))
	for i := range rs {
		rs[i] = d.request()
		rs[i].Shadow = d.rnd.IntN(8) == 0
		if d.rnd.IntN(2) == 0 {
			rs[i].Cost = min(rs[i].Cost, 2) // so that some pass
			rs[i].Floor = 0
		}
		d.note("in a batch: %s", describe(&rs[i]))
	}
	d.decideAll(rs)
}

// plainBatch decides a batch that the quick scripts decide, one request for each key.
func (d *duel) plainBatch() {
	rs := make([]sluice.Request, len(d.keys))
	debits := d.rnd.IntN(3) == 0
	for i, k := range d.keys {
		l := d.limit()
		rs[i] = sluice.Request{Limit: l, Key: k, Cost: d.one(1, 1, 1, 2, 130, l.Capacity()/2, l.Capacity(), d.upTo(l.Capacity()))}
		rs[i].Cost = max(1, rs[i].Cost)
		rs[i].Debit = debits && l.TakesDebits()
		rs[i].Overdraw = !debits && l.TakesDebits() && d.rnd.IntN(8) == 0
		d.note("in a plain batch: %s", describe(&rs[i]))
	}
	d.decideAll(rs)
}

// decideAll decides several requests as one in both, and keeps what was charged.
func (d *duel) decideAll(rs []sluice.Request) {
	want, got := make([]sluice.Decision, len(rs)), make([]sluice.Decision, len(rs))
	wantErr := d.memory.DecideAll(d.Context(), rs, want)
	err := d.redis.DecideAll(d.Context(), rs, got)
	passed := true
	for i := range rs {
		if rs[i].Peek { // nothing was charged
			got[i].Receipt, want[i].Receipt = sluice.Receipt{}, sluice.Receipt{}
		}
		d.compare(got[i], want[i], err, wantErr)
		passed = passed && (want[i].Allowed || rs[i].Shadow)
	}
	for i := range rs {
		if want[i].Allowed && !rs[i].Peek && (passed || rs[i].Shadow || rs[i].Debit && rs[i].Cost > 0) {
			d.live = append(d.live, rs[i].Charge(&want[i]))
		}
	}
}

// end ends a charge, more often a late one. Some are ended again.
func (d *duel) end(lately bool) {
	if len(d.live) == 0 {
		return
	}
	i := d.rnd.IntN(len(d.live))
	if lately {
		i = max(i, len(d.live)-1-d.rnd.IntN(3))
	}
	c := d.live[i]
	switch d.rnd.IntN(5) {
	case 0, 1:
		d.cancel(i)
	case 2:
		d.giveBack(&c, d.one(1, c.Cost, d.upTo(c.Limit.Capacity()+1), d.upTo(1<<53)))
		return
	default:
		d.settle(i, d.one(0, 0, c.Cost, max(0, c.Cost-1), c.Cost/2, c.Cost+1, c.Cost+c.Cost/2,
			c.Cost+d.upTo(1<<53), d.upTo(1<<53), math.MaxInt64))
	}
	if d.rnd.IntN(8) > 0 {
		d.live = append(d.live[:i], d.live[i+1:]...)
	}
}

// crowd makes reservations that wait for each other, and cancels some in any order.
func (d *duel) crowd() {
	r := sluice.Request{Limit: d.limit(), Key: d.key(), MaxWait: 1 << 61}
	most := r.Limit.Capacity()
	for range 2 + d.rnd.IntN(4) {
		r.Cost = d.one(most, 1+d.rnd.Int64N(most), d.upTo(most))
		if r.Floor = 0; d.rnd.IntN(8) == 0 {
			r.Floor = d.rnd.Int64N(most)
		}
		if d.rnd.IntN(8) == 0 {
			r.Limit = d.limit()
		}
		d.decide(r)
	}
	for range d.rnd.IntN(6) {
		if len(d.live) == 0 {
			return
		}
		i := max(0, len(d.live)-1-d.rnd.IntN(6))
		d.cancel(i)
		d.live = append(d.live[:i], d.live[i+1:]...)
		d.look(r.Limit, r.Key)
	}
}

// cancel cancels a charge that was made.
func (d *duel) cancel(i int) {
	c := d.live[i]
	d.note("cancel %s", ended(&c))
	d.compare(sluice.Decision{}, sluice.Decision{}, d.redis.Cancel(d.Context(), c), d.memory.Cancel(d.Context(), c))
}

// settle settles a charge that was made.
func (d *duel) settle(i int, actual int64) {
	c := d.live[i]
	d.note("settle %s at %d", ended(&c), actual)
	d.compare(sluice.Decision{}, sluice.Decision{}, d.redis.Settle(d.Context(), c, actual), d.memory.Settle(d.Context(), c, actual))
}

// giveBack gives units of the newest charges back.
func (d *duel) giveBack(c *sluice.Charge, units int64) {
	if !c.Limit.TakesDebits() {
		return
	}
	d.note("give %d back, %v", units, c.Limit)
	newest := sluice.Charge{Limit: c.Limit, Key: c.Key, Cost: units, Receipt: sluice.Receipt{At: oracle.Newest}}
	d.compare(sluice.Decision{}, sluice.Decision{}, d.redis.Settle(d.Context(), newest, 0), d.memory.Settle(d.Context(), newest, 0))
	d.look(c.Limit, c.Key)
}

func (d *duel) reset(l *sluice.Limit, k sluice.Key) {
	d.note("reset %q of %v", k.Text(), l)
	d.compare(sluice.Decision{}, sluice.Decision{}, d.redis.Reset(d.Context(), l, k), d.memory.Reset(d.Context(), l, k))
}

func describe(r *sluice.Request) string {
	return fmt.Sprintf("decide %v for %q: cost %d floor %d wait %v member %d peek %t shadow %t debit %t overdraw %t",
		r.Limit, r.Key.Text(), r.Cost, r.Floor, r.MaxWait, r.Member, r.Peek, r.Shadow, r.Debit, r.Overdraw)
}

func ended(c *sluice.Charge) string {
	return fmt.Sprintf("a charge of %v for %q: cost %d floor %d %+v", c.Limit, c.Key.Text(), c.Cost, c.Floor, c.Receipt)
}

// note remembers a step, in case that it goes wrong.
func (d *duel) note(format string, args ...any) {
	d.steps = append(d.steps, fmt.Sprintf(format, args...))
}

func (d *duel) compare(got, want sluice.Decision, err, wantErr error) {
	d.Helper()
	if (err == nil) == (wantErr == nil) && errors.Is(err, sluice.ErrActed) == errors.Is(wantErr, sluice.ErrActed) && got == want {
		return
	}
	d.Fatalf("redis: %+v, %v\nmemory: %+v, %v\nat %d after:\n%s", got, err, want, wantErr, d.now,
		strings.Join(d.steps[max(0, len(d.steps)-40):], "\n"))
}
