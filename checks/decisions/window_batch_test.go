package decisions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
)

// TestBatchesOfWindows decides batches of fixed windows at random, in memory and on a server, and wants equal
// answers. It also wants every state to expire when its window ends, although most charges keep the time to live.
func TestBatchesOfWindows(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(server))
	for seed := range uint64(redistest.Times(t, 2)) {
		walkBatches(t, client, fmt.Sprintf("batches-%d", seed), seed, false)
	}
}

// TestBatchesOfWindowsOnACluster does the same where the keys of a batch are in several slots.
func TestBatchesOfWindowsOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := adapters.Rueidis.Dial(t, adapters.ToCluster(cluster))
	for seed := range uint64(redistest.Times(t, 1)) {
		walkBatches(t, client, "batches", seed, true)
	}
}

// batchRows are limits that keep one key's state in turn, as after live changes.
var batchRows = [][]sluice.FixedWindow{
	{{Rate: sluice.PerSecond(20)}, {Rate: sluice.PerSecond(20), Opened: true}, {Rate: sluice.PerSecond(30)}, {Rate: sluice.Per(20, 3*time.Second)}},
	{{Rate: sluice.PerSecond(20)}},
	{{Rate: sluice.Per(9, 1_000_003*time.Microsecond), Opened: true}},
	{{Rate: sluice.PerSecond(12)}, {Rate: sluice.PerSecond(12), CountDenied: true}},
	{{Rate: sluice.Per(1<<33, 2*time.Second)}},
	{{Rate: sluice.Per(1<<53-1, time.Second)}, {Rate: sluice.Per(1<<53-1, time.Second), Opened: true}},
	{{Rate: sluice.Per(3, 10*time.Microsecond)}, {Rate: sluice.Per(3, 10*time.Microsecond), Opened: true}},
}

// batchWalk is a walk whose keys all have a state of each limit.
type batchWalk struct {
	*windowWalk
	rows    [][]*sluice.Limit
	client  redisstore.Client
	prefix  string
	high    int64 // the latest time
	cluster bool
}

// walkBatches goes one walk. Half of them run without the version of the server, as on Redis 6.2.
func walkBatches(t *testing.T, client redisstore.Client, prefix string, seed uint64, cluster bool) {
	t.Helper()
	w := &batchWalk{windowWalk: newWindowWalk(t, client, "", nil), prefix: prefix, cluster: cluster}
	w.rng = rand.New(rand.NewPCG(seed, 2))
	w.clock.Set(4_000_000_000_000_000 + w.rng.Int64N(1_000_000_000)) // no key expires during the test
	w.client = client
	for range 2 + w.rng.IntN(5) {
		w.keys = append(w.keys, sluice.StringKey(strconv.Itoa(len(w.keys))))
	}
	for range 1 + w.rng.IntN(3) {
		i := w.rng.IntN(len(batchRows))
		var row []*sluice.Limit
		as := batchRows[i]
		if cluster {
			as = as[:1] // what is given back stays converted
		}
		for _, a := range as {
			row = append(row, sluice.MustLimit(fmt.Sprintf("%d-%d", seed, len(w.rows)), a))
		}
		w.rows = append(w.rows, row)
		w.limits = append(w.limits, row...)
	}
	for _, l := range w.limits {
		w.units = append(w.units, windowPeriod(l))
	}
	inMemory, err := memory.New(memory.Options{MaxBytes: 1 << 20, Stripes: 1, Clock: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	onServer, err := redisstore.New(expiring(client, seed%4 == 3, w.clock.Now), redisstore.Options{Prefix: prefix, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	w.stores = [2]sluice.Store{inMemory, onServer}
	for range 150 {
		for _, row := range w.rows {
			for _, k := range w.keys { // which of them is not known after denials
				w.kept[stateOf(row[0], k)] = row
			}
		}
		w.stepOfBatches()
	}
}

func (w *batchWalk) stepOfBatches() {
	w.Helper()
	w.pass()
	w.high = max(w.high, w.clock.Now())
	switch w.rng.IntN(10) {
	case 0, 1:
		w.end()
	case 2:
		r := w.request()
		r.Floor = 0
		w.send(r)
	case 3:
		if !w.cluster { // a shadow there may see charges that are given back
			w.batch()
		}
	default:
		w.decideBatch()
	}
	for _, row := range w.rows {
		l := row[w.rng.IntN(len(row))]
		for _, k := range w.keys {
			w.send(sluice.Request{Limit: l, Key: k, Peek: true})
		}
		w.wantExpiries(row)
	}
}

// decideBatch decides a batch that the shortest scripts decide, or one that hardly differs.
func (w *batchWalk) decideBatch() {
	w.Helper()
	var rs []sluice.Request
	for _, row := range w.rows {
		l, cost := row[0], int64(0)
		if w.rng.IntN(6) == 0 {
			l = row[w.rng.IntN(len(row))]
		}
		for _, k := range w.keys {
			if c := l.Capacity(); cost == 0 || w.rng.IntN(3) == 0 {
				cost = []int64{1, 1, 1, 2, 3, 1 + w.rng.Int64N(c/5+1), 1 + w.rng.Int64N(c/2+1), c, 1<<32 - 2}[w.rng.IntN(9)]
				cost = min(cost, c)
			}
			if w.rng.IntN(4) > 0 {
				rs = append(rs, sluice.Request{Limit: l, Key: k, Cost: cost})
			}
		}
	}
	if len(rs) == 0 {
		return
	}
	if w.rng.IntN(3) == 0 {
		w.rng.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
	}
	wait := []time.Duration{0, sluice.NoWait, time.Second}[max(0, w.rng.IntN(6)-3)]
	for i := range rs {
		rs[i].MaxWait = wait
	}
	switch r := &rs[w.rng.IntN(len(rs))]; w.rng.IntN(24) {
	case 0:
		r.Cost = 0
	case 1:
		r.Cost = r.Limit.Capacity() + 1
	case 2:
		r.Cost = 1<<63 - 1
	case 3:
		r.Peek = true
	case 4:
		r.Shadow = true
	case 5:
		r.Floor = 1 + w.rng.Int64N(3)
	case 6:
		rs = append(rs, *r)
	case 7:
		r.Ban = &sluice.Ban{After: 1000, For: time.Second}
	case 8:
		r.Debit = true
	case 9:
		r.Overdraw, r.Cost = true, 2*r.Limit.Capacity()
	case 10:
		for i := range rs {
			rs[i].Debit = true
		}
	}
	w.decideAll(rs)
}

// wantExpiries looks at the times to live of all states of a row: to the end of the window, and some 20 ms.
func (w *batchWalk) wantExpiries(row []*sluice.Limit) {
	w.Helper()
	const expiry = `return string.format('%d', redis.call('PEXPIRETIME', KEYS[1]))`
	l := row[0]
	same := !slices.ContainsFunc(row, func(o *sluice.Limit) bool {
		return o.Params().Fixed.Length != l.Params().Fixed.Length || o.Params().Fixed.Opened != l.Params().Fixed.Opened
	})
	for _, k := range w.keys {
		d, err := w.stores[0].Decide(w.Context(), sluice.Request{Limit: l, Key: k, Peek: true})
		if err != nil {
			w.Fatal(err)
		}
		text, err := w.client.Eval(w.Context(), expiry, []string{w.prefix + "{" + k.Text() + "}fixed:" + l.Name()}, nil)
		if err != nil {
			w.Fatal(err)
		}
		millis, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			w.Fatal(err)
		}
		late := 1000*millis - w.clock.Now() - d.ResetAfter.Microseconds()
		switch {
		case millis == -1:
			w.fail("key %v of %v never expires", k, l.Algorithm())
		case d.ResetAfter == 0 || !same: // nothing to keep, or perhaps the windows of other numbers
		case late < 20_000 || late > 23_000 && w.clock.Now() == w.high: // a peek after the clock went back moves nothing
			w.fail("key %v of %v expires %d µs after its window", k, l.Algorithm(), late)
		}
	}
}

// expiring returns a client whose scripts read a clock of the test, and let keys expire at the times of that clock. Scripts
// of an old server do not see its version.
func expiring(client redisstore.Client, old bool, now func() int64) redisstore.Client {
	scripts := redistest.NewScripts(func(source string) (string, error) {
		sent := strings.NewReplacer(
			"redis.call('TIME')", "{ table.remove(ARGV, #ARGV - 1), table.remove(ARGV) }",
			"'PX', ", "'PXAT', math.floor(now / 1000) + ",
		).Replace(source)
		if old {
			sent = strings.ReplaceAll(sent, "redis.REDIS_VERSION_NUM", "nil")
		}
		return sent, nil
	})
	return redistest.WithScripts(client, scripts, redistest.Stamp(now))
}

// TestWindowsKeepWhatOthersRead: the shortest scripts keep exactly what conversions to other numbers need.
func TestWindowsKeepWhatOthersRead(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	d := a.duel(t, 1, func(*duel) sluice.Algorithm { return sluice.FixedWindow{Rate: sluice.PerSecond(20)} })
	second := d.limits[0]
	short := sluice.MustLimit("duel", sluice.FixedWindow{Rate: sluice.Per(1, 100*time.Millisecond), Opened: true})
	long := sluice.MustLimit("duel", sluice.FixedWindow{Rate: sluice.Per(20, 3*time.Second)})
	large := sluice.MustLimit("duel", sluice.FixedWindow{Rate: sluice.PerSecond(1 << 33)})
	const begin = 1_800_000_000_000_000 // of all windows
	at := func(millis, cost int64, l *sluice.Limit) {
		t.Helper()
		d.now = begin + 1000*millis
		d.decideAll([]sluice.Request{{Limit: l, Key: d.keys[0], Cost: cost}, {Limit: l, Key: d.keys[1], Cost: cost}})
	}
	at(800, 1, second)
	at(300, 1, second) // the clock went back, but the latest charge stays the latest
	d.now = begin + 500_000
	d.look(short, d.keys[0])
	at(3100, 10, long) // in the window from 3 to 6 seconds
	at(3100, 10, long) // by the shortest script
	at(5500, 20, second)
	at(9500, 1<<32, large)
	d.look(large, d.keys[0])
	d.now = begin + 10_500_000
	d.decide(sluice.Request{Limit: large, Key: d.keys[0], Cost: 1 << 32})
	d.look(large, d.keys[0])
}
