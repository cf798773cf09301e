package decisions

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

var update = flag.Bool("update", false, "write the bytes of states in Redis again")

// bytesFile has a line for each key of Redis: the key, and its value in hexadecimal digits.
const bytesFile = "testdata/states.txt"

// kept is a limit with a state in Redis.
type kept struct {
	options   redisstore.Options
	limit     *sluice.Limit
	key       sluice.Key
	remaining int64 // after two charges of 3 and 1 units, a second apart
}

// keptStates has a limit of each algorithm, and keys of each form.
func keptStates(tb testing.TB) []kept {
	tb.Helper()
	rate, key := sluice.PerHour(100), sluice.StringKey("k")
	secret := redisstore.Options{Secret: []byte("0123456789abcdef0123456789abcdef")}
	tenant := redisstore.Options{Tenant: func(sluice.Key) string { return "t}1" }}
	bucket := sluice.TokenBucket{Rate: rate}
	named := func(name string, a sluice.Algorithm) kept {
		return kept{limit: sluice.MustLimit(name, a), key: key, remaining: 96}
	}
	states := []kept{
		named("bucket", bucket),
		named("debt", sluice.TokenBucket{Rate: sluice.PerHour(7), Burst: 100, Debt: 5}),
		{limit: sluice.MustLimit("warm", sluice.TokenBucket{Rate: sluice.PerSecond(100), WarmUp: time.Minute}), key: key},
		named("leaky", sluice.LeakyBucket{Rate: sluice.PerHour(100), Queue: 99}),
		named("aligned", sluice.FixedWindow{Rate: rate}),
		named("opened", sluice.FixedWindow{Rate: rate, Opened: true}),
		named("calendar", sluice.FixedWindow{Rate: sluice.PerDay(100), Calendar: sluice.CalendarDay}),
		named("cells", sluice.SlidingWindow{Rate: rate, Cells: 6}),
		named("counter", sluice.SlidingCounter{Rate: rate}),
		named("log", sluice.SlidingLog{Rate: rate}),
		named("leases", sluice.Concurrency{Max: 100, TTL: time.Hour}),
		{limit: sluice.MustLimit("", bucket), key: key, remaining: 96},
		{limit: sluice.MustLimit(strings.Repeat("long", 30), bucket), key: key, remaining: 96},
		{limit: sluice.MustLimit("parts", bucket), key: sluice.NewKey("a", "b%}"), remaining: 96},
		{limit: sluice.MustLimit("long key", bucket), key: sluice.StringKey(strings.Repeat("x", 200)), remaining: 96},
		{limit: sluice.MustLimit("secret", bucket), key: key, options: secret, remaining: 96},
		{limit: sluice.MustLimit("tenant", bucket), key: key, options: tenant, remaining: 96},
	}
	return states
}

// TestStatesInRedisKeepTheirBytes compares the keys and values that this program writes with the file, which earlier programs
// wrote. All of them share a Redis while servers are replaced one by one, and after a return to the version before.
//
// If it fails, either change nothing of what is stored, or let this program read both forms, release that, and write the new form
// one release later: then run the test with -update.
func TestStatesInRedisKeepTheirBytes(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	start := g.now
	open := func(k kept) *redisstore.Store {
		o := k.options
		o.Clock = func() int64 { return g.now }
		s, err := redisstore.New(redistest.WithClock(plainClient{g.a.conn}, o.Clock), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, k := range keptStates(t) {
		g.now = start
		for i, cost := range []int64{3, 1} {
			g.now += int64(i) * 1_000_000
			r := sluice.Request{Limit: k.limit, Key: k.key, Cost: cost, MaxWait: time.Hour}
			if k.limit.IsConcurrency() {
				r.Member = uint64(7 + i)
			}
			if d, err := open(k).Decide(t.Context(), r); err != nil || !d.Allowed {
				t.Fatalf("%s: the charge of %d units is %+v, %v; want it allowed", k.limit.Name(), cost, d, err)
			}
		}
	}
	ban := sluice.MustLimit("banned", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	if err := g.store.BanKey(t.Context(), ban, g.key, time.Hour); err != nil {
		t.Fatal(err)
	}
	shared := hybrid(t, "shared", sluice.TokenBucket{Rate: sluice.PerHour(100)}, sluice.Hybrid{Stranded: 0.5})
	g.claim(shared, 7, driver.Claim{Seq: 1, Take: 3, Want: 20, Demand: 1000})
	g.claim(shared, 8, driver.Claim{Seq: 5, Want: 10, Demand: 1000})

	written := g.stored()
	if *update {
		if err := os.WriteFile(bytesFile, []byte(strings.Join(written, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(bytesFile)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range written {
		if !slices.Contains(before, line) {
			t.Errorf("this program writes what the programs before it did not:\n%s", line)
		}
	}
	for _, line := range before {
		if !slices.Contains(written, line) {
			t.Errorf("the programs before it wrote what this program does not:\n%s", line)
		}
	}

	// What the programs before wrote, as this program reads it.
	peek := func(k kept) sluice.Decision {
		d, err := open(k).Decide(t.Context(), sluice.Request{Limit: k.limit, Key: k.key, Cost: 1, Peek: true, Member: 9})
		if err != nil || d.Remaining != k.remaining {
			t.Errorf("%s: this program reads %d remaining units, %v; want %d", k.limit.Name(), d.Remaining, err, k.remaining)
		}
		return d
	}
	var want []sluice.Decision
	for _, k := range keptStates(t) {
		want = append(want, peek(k))
	}
	if _, err := g.a.conn.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	for _, line := range before {
		g.restore(line)
	}
	for i, k := range keptStates(t) {
		if got := peek(k); got != want[i] {
			t.Errorf("%s: a state of before is decided %+v, and a state of this program %+v", k.limit.Name(), got, want[i])
		}
	}
	if d, err := g.store.Decide(t.Context(), sluice.Request{Limit: ban, Key: g.key, Cost: 1, Ban: &sluice.Ban{}}); err != nil || d.Reason != sluice.ReasonBanned {
		t.Errorf("a key that a program before has banned is decided %+v, %v; want it banned", d, err)
	}
	if got, want := g.remaining(sluice.MustLimit("shared", shared.Algorithm())), int64(100-3-20-10); got != want {
		t.Errorf("%d units remain beside grants of a program before, want %d", got, want)
	}
}

// stored returns a line for each key of Redis.
func (g *grants) stored() (lines []string) {
	g.Helper()
	reply, err := g.a.conn.Do(g.Context(), "KEYS", "*")
	keys, ok := reply.([]any)
	if err != nil || !ok {
		g.Fatal(errors.Join(err, fmt.Errorf("the keys are %v", reply)))
	}
	for _, key := range keys {
		line := fmt.Sprintf("%q", key)
		if value, err := g.a.conn.Do(g.Context(), "GET", key.(string)); err == nil {
			lines = append(lines, fmt.Sprintf("%s %x", line, value))
			continue
		}
		members, err := g.a.conn.Do(g.Context(), "ZRANGE", key.(string), "0", "-1", "WITHSCORES")
		if err != nil {
			g.Fatal(err)
		}
		for _, m := range members.([]any) { // members and scores in turn
			line += fmt.Sprintf(" %x", m)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// restore stores the key of a line.
func (g *grants) restore(line string) {
	g.Helper()
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		g.Fatalf("%s has the line %q: %v", bytesFile, line, err)
	}
	key, err := strconv.Unquote(quoted)
	args := []string{key}
	for _, word := range strings.Fields(line[len(quoted):]) {
		value, e := hex.DecodeString(word)
		args, err = append(args, string(value)), errors.Join(err, e)
	}
	if err != nil {
		g.Fatalf("%s has the line %q: %v", bytesFile, line, err)
	}
	command := []string{"SET", args[0]}
	if len(args) > 2 {
		command[0] = "ZADD"
		for i := 1; i < len(args); i += 2 {
			command = append(command, args[i+1], args[i])
		}
	} else {
		command = append(command, args[1])
	}
	if _, err := g.a.conn.Do(g.Context(), command...); err != nil {
		g.Fatal(err)
	}
}
