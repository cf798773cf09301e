package resp

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// The replies of redis-cell, from its documentation and its tests, and by its rules.
func TestThrottleAsRedisCell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []struct {
			after      time.Duration
			give, want string
		}
	}{
		{"the example of its documentation", []struct {
			after      time.Duration
			give, want string
		}{
			{0, "user123 15 30 60", "[0 16 15 -1 2]"},
			{0, "user123 15 30 60 1", "[0 16 14 -1 4]"},
			{2 * time.Second, "user123 15 30 60", "[0 16 14 -1 4]"},
			{time.Minute, "user123 15 30 60", "[0 16 15 -1 2]"},
		}},
		{"no burst", []struct {
			after      time.Duration
			give, want string
		}{
			{0, "k 0 1 2", "[0 1 0 -1 2]"},
			{0, "k 0 1 2 1", "[1 1 0 2 2]"},
			{2 * time.Second, "k 0 1 2", "[0 1 0 -1 2]"},
		}},
		{"quantities", []struct {
			after      time.Duration
			give, want string
		}{
			{0, "k 9 10 10 0", "[0 10 10 -1 0]"},
			{0, "k 9 10 10 4", "[0 10 6 -1 4]"},
			{0, "k 9 10 10 0", "[0 10 6 -1 4]"},
			{0, "k 9 10 10 7", "[1 10 6 1 4]"},
			{0, "k 9 10 10 11", "[1 10 6 -1 4]"}, // more than there ever is
			{0, "k 9 10 10 9223372036854775807", "[1 10 6 -1 4]"},
			{time.Second, "k 9 10 10 7", "[0 10 0 -1 10]"},
			{0, "k 9 10 10 1", "[1 10 0 1 10]"},
		}},
		{"times are rounded up, without what is less than a millisecond", []struct {
			after      time.Duration
			give, want string
		}{
			{0, "k 0 1 10", "[0 1 0 -1 10]"},
			{999 * time.Microsecond, "k 0 1 10", "[1 1 0 10 10]"},
			{8_998 * time.Millisecond, "k 0 1 10", "[1 1 0 2 2]"},
			{time.Millisecond, "k 0 1 10", "[1 1 0 1 1]"},     // 1.000001 s
			{2 * time.Microsecond, "k 0 1 10", "[1 1 0 1 1]"}, // 999.999 ms
			{999_998 * time.Microsecond, "k 0 1 10", "[1 1 0 0 0]"},
			{time.Microsecond, "k 0 1 10", "[0 1 0 -1 10]"},
		}},
		{"the clock goes back", []struct {
			after      time.Duration
			give, want string
		}{
			{0, "k 1 1 10", "[0 2 1 -1 10]"},
			{-5 * time.Second, "k 1 1 10", "[0 2 0 -1 25]"},
			{0, "k 1 1 10", "[1 2 0 15 25]"},
			{5 * time.Second, "k 1 1 10", "[1 2 0 10 20]"},
		}},
		{"keys are apart", []struct {
			after      time.Duration
			give, want string
		}{
			{0, "a 0 1 10", "[0 1 0 -1 10]"},
			{0, "b 0 1 10", "[0 1 0 -1 10]"},
			{0, "a 0 1 10", "[1 1 0 10 10]"},
			{0, "A 0 +1 010", "[0 1 0 -1 10]"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, noRules, nil)
			to := s.dial()
			for i, step := range c.steps {
				s.pass(step.after)
				if got := to.do(append([]string{"cl.Throttle"}, strings.Fields(step.give)...)...); got != step.want {
					t.Errorf("step %d, %s: %s, want %s", i, step.give, got, step.want)
				}
			}
		})
	}
}

// A CL.THROTTLE with wrong arguments gets the error of redis-cell.
func TestThrottleErrorsEqualRedisCell(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	to := s.dial()
	const usage = "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	for _, c := range []struct{ give, want string }{
		{"", usage},
		{"k 1 1", usage},
		{"k 1 1 1 1 1", usage},
		{"k x 1 1", "Couldn't parse as integer: x"},
		{"k 1 1.5 1", "Couldn't parse as integer: 1.5"},
		{"k 1 1 1 1_0", "Couldn't parse as integer: 1_0"},
		{"k 1 1 9223372036854775808", "Couldn't parse as integer: 9223372036854775808"},
		{"k 1 1 1 " + strings.Repeat("7", 100), "Couldn't parse as integer: " + strings.Repeat("7", 64) + "..."},
		{"k 1 0 1", "Zero rates are not supported"},
		{"k 1 1 0", "Zero rates are not supported"},
		{"k -1 1 1", "max_burst is -1; give 0 to 9007199254740989"},
		{"k 9223372036854775807 1 1", "max_burst is 9223372036854775807; give"},
		{"k 1 -1 1", "count is -1; give 1 to"},
		{"k 1 1 -1", "period is -1; give 1 to 3153600000 seconds"},
		{"k 1 1 3153600001", "period is 3153600001; give"},
		{"k 1000000000 1000003 31536000", "max_burst 1000000000 cannot be counted exactly at 1000003 per 31536000 seconds; give a smaller burst"},
		{"k 1 1 1 -1", "quantity is -1; give 1 or more"},
		{strings.Repeat("k", 4097) + " 1 1 1", "the key has 4097 bytes; give up to 4096"},
	} {
		got := to.do(append([]string{"CL.THROTTLE"}, strings.Fields(c.give)...)...)
		if !strings.HasPrefix(got, "-Cell error: Store error: "+c.want) {
			t.Errorf("%.40s: %s, want %s", c.give, got, c.want)
		}
	}
	if got := to.do("CL.THROTTLE", "", "1", "1", "1"); !strings.HasPrefix(got, "-Cell error: Store error: the key is empty") {
		t.Errorf("an empty key: %s", got)
	}
	if got := to.do("CL.THROTTLE", "k", "a\r\n+OK", "1", "1"); got != "-Cell error: Store error: Couldn't parse as integer: a??+OK" {
		t.Errorf("a line break gets into an error: %q", got)
	}
	if got := to.do("CL.THROTTLE", strings.Repeat("k", 4096), "1", "1", "1"); got != "[0 2 1 -1 1]" {
		t.Errorf("the longest key: %s", got)
	}
}

// cell is redis-cell's rule, computed from its definition in units of 1/count microseconds: the theoretical arrival
// time of the next request.
type cell struct{ maxBurst, count, period, tat int64 }

func (c *cell) throttle(now, quantity int64) string {
	interval := c.period * 1_000_000
	tolerance := interval * (c.maxBurst + 1)
	now *= c.count
	tat := max(c.tat, now)
	after := tat + interval*quantity
	micros := func(d int64) int64 { return (d + c.count - 1) / c.count }
	whole := func(us int64) int64 { return us/1_000_000 + min(us%1_000_000/1000, 1) }
	limited, ttl, retry := int64(0), after-now, int64(-1)
	if now < after-tolerance {
		limited, ttl = 1, tat-now
		if interval*quantity <= tolerance {
			retry = whole(micros(after - tolerance - now))
		}
	} else {
		c.tat = after
	}
	return fmt.Sprintf("[%d %d %d %d %d]", limited, c.maxBurst+1, (tolerance-ttl)/interval, retry, whole(micros(ttl)))
}

// CL.THROTTLE equals redis-cell's definition for random schedules.
func TestThrottleEqualsOracle(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := serve(t, noRules, nil)
	to := s.dial()
	s.now = 1_000_000 // small, so that the oracle's numbers fit
	for round := range 200 {
		c := cell{maxBurst: random.Int64N(20), count: 1 + random.Int64N(40), period: 1 + random.Int64N(100)}
		key := strconv.Itoa(round)
		for range 30 {
			s.pass(time.Duration(random.Int64N(3*c.period*1_000_000/c.count+2)) * time.Microsecond)
			quantity := random.Int64N(4)
			if random.IntN(8) == 0 {
				quantity = random.Int64N(25)
			}
			want := c.throttle(s.clock(), quantity)
			got := to.do("CL.THROTTLE", key, text(c.maxBurst), text(c.count), text(c.period), text(quantity))
			if got != want {
				t.Fatalf("%+v, quantity %d: %s, want %s", c, quantity, got, want)
			}
		}
	}
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// A client that changes the numbers of a key gets no fresh budget.
func TestChangedNumbersKeepWhatWasUsed(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	to := s.dial()
	if got := to.do("CL.THROTTLE", "k", "99", "100", "3600", "100"); got != "[0 100 0 -1 3600]" {
		t.Fatalf("taking all 100 units got %s", got)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		n := []string{text(random.Int64N(100)), text(1 + random.Int64N(100)), text(3600 + random.Int64N(100_000))}
		if got := to.do("CL.THROTTLE", "k", n[0], n[1], n[2]); !strings.HasPrefix(got, "[1 ") {
			t.Fatalf("numbers %v gave a fresh budget: %s", n, got)
		}
	}
	// A larger burst adds its difference, once.
	if got := to.do("CL.THROTTLE", "k", "109", "100", "3600", "10"); !strings.HasPrefix(got, "[0 110 0 -1 ") {
		t.Errorf("a larger burst: %s", got)
	}
	if got := to.do("CL.THROTTLE", "k", "99", "100", "3600", "0"); !strings.HasPrefix(got, "[1 100 0 ") {
		t.Errorf("back to the smaller burst: %s", got)
	}
	if got := to.do("CL.THROTTLE", "k", "109", "100", "3600"); !strings.HasPrefix(got, "[1 110 0 ") {
		t.Errorf("the larger burst for the second time: %s", got)
	}
}

// Whatever numbers a key's commands have, in any order, it gets no more than the largest of them give.
func TestChangedNumbersKeepTheBound(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := serve(t, noRules, nil)
	to := s.dial()
	for round := range 20 {
		key, began, units := strconv.Itoa(round), s.clock(), int64(0)
		const burst, count, period = 50, 20, 7 // of the largest
		for range 200 {
			s.pass(time.Duration(random.Int64N(1_000_000)) * time.Microsecond)
			b, n, p := random.Int64N(burst), 1+random.Int64N(count), period+random.Int64N(50)
			if random.IntN(4) == 0 {
				b, n, p = burst-1, count, period
			}
			quantity := 1 + random.Int64N(5)
			if strings.HasPrefix(to.do("CL.THROTTLE", key, text(b), text(n), text(p), text(quantity)), "[0 ") {
				units += quantity
			}
			if most := burst + (s.clock()-began)*count/(period*1_000_000); units > most {
				t.Fatalf("%d units in %d µs, and the largest numbers give %d", units, s.clock()-began, most)
			}
		}
	}
}

// The limits that are kept are bounded, and a limit is dropped only when its states are fresh.
func TestThrottlesAreBounded(t *testing.T) {
	t.Parallel()
	now := int64(0)
	client, another := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2)}
	ts := newThrottles(6) // three of them for one client
	find := func(n numbers, recent *throttle) *throttle {
		t.Helper()
		got, problem := ts.find(n, recent, client, now)
		if problem != "" {
			t.Fatalf("numbers %+v found no room: %s", n, problem)
		}
		return got
	}
	first := find(numbers{9, 1, 1}, nil) // full again after 10 s
	long := find(numbers{9, 1, 1000}, nil)
	third := find(numbers{0, 1, 1}, nil)
	if again := find(numbers{9, 1, 1}, long); again != first {
		t.Error("the same numbers are another limit")
	}
	if _, problem := ts.find(numbers{1, 1, 1}, nil, client, now); problem != tooMany {
		t.Error("a client has room for more numbers than it may use")
	}
	if other, problem := ts.find(numbers{9, 1, 1}, nil, another, now); other != first {
		t.Errorf("numbers that are in use are refused to another client: %s", problem)
	}
	now = 5
	find(numbers{9, 1, 1}, first)
	if fourth := find(numbers{1, 1, 1}, nil); fourth == nil || !third.gone.Load() || first.gone.Load() || long.gone.Load() {
		t.Error("the limit whose states are fresh was not dropped, or another was")
	}
	now = 17
	if first.gone.Load() {
		t.Error("the first limit is gone before its states are fresh")
	}
	now = 18
	find(numbers{2, 1, 1}, nil)
	if !first.gone.Load() {
		t.Error("the first limit is kept")
	}
	if again := find(numbers{9, 1, 1}, first); again == first {
		t.Error("a connection uses a limit that was dropped")
	}
}

// A limit is kept for as long as its states need to be fresh, counted from its last use.
func TestUsedThrottlesStay(t *testing.T) {
	t.Parallel()
	ts := newThrottles(6)
	client := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	for now := range int64(100) {
		used, problem := ts.find(numbers{9, 1, 1}, nil, client, now) // full again after 10 s
		if ts.sweep(now); problem != "" || used.gone.Load() {
			t.Fatalf("after %d s, a limit that was used a second ago is gone: %s", now, problem)
		}
	}
}

// A flood of numbers that stay in use for years leaves nothing behind in the store, and ends in an error. Other clients may use new
// numbers.
func TestFloodOfNumbers(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, func(o *Options) { o.OnVerdict = nil })
	to := s.dial()
	const batch, batches, century = 500, 40, 3153600000 // seconds
	refused := 0
	for b := range batches {
		var text strings.Builder
		for i := range batch {
			n := b*batch + i
			text.WriteString(encode("CL.THROTTLE", fmt.Sprint("key ", n), "1", "1", strconv.FormatInt(century-int64(n), 10)))
		}
		to.send(text.String())
		for range batch {
			if strings.Contains(to.reply(), "combinations of numbers, this client uses as many as are free") {
				refused++
			}
		}
	}
	if want := batch*batches - mostThrottles/2; refused != want {
		t.Errorf("%d numbers are refused, want %d", refused, want)
	}
	if n := s.server.o.Decider.Store().(*memory.Store).Stats().Limits; n > mostThrottles+1 {
		t.Errorf("the store has %d limits", n)
	}
	if got := to.do("CL.THROTTLE", "key 1", "1", "1", strconv.FormatInt(century-1, 10), "0"); got != "[0 2 1 -1 3153599999]" {
		t.Errorf("numbers that are in use: %s", got)
	}
	other := &client{edgetest.DialFrom(t, "127.0.0.2", s.address), t}
	if got := other.do("CL.THROTTLE", "key", "7", "1", "60"); got != "[0 8 7 -1 60]" {
		t.Errorf("new numbers of another client: %s", got)
	}
}

// Metrics, logs and pressure get each verdict of CL.THROTTLE, and no look.
func TestObserversGetVerdictsOfThrottle(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	to := s.dial()
	for _, quantity := range []string{"1", "0", "1", "5"} {
		to.do("CL.THROTTLE", "k", "0", "1", "10", quantity)
	}
	if got := fmt.Sprint(s.seen()); got != "[(cl.throttle) allow (cl.throttle) deny (cl.throttle) deny]" {
		t.Errorf("the observed verdicts are %s", got)
	}
}
