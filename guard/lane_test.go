package guard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/guard"
)

// sharded is a store whose keys are on several servers: the first letter of a key is the server.
type sharded struct {
	*fake
	mu    sync.Mutex
	fault map[int]fault
}

var _ driver.Sharded = (*sharded)(nil)

func (s *sharded) Shard(k sluice.Key) int {
	if k.Text() == "" {
		return 0
	}
	return int(k.Text()[0] - 'a')
}

// set gives later calls to a server a fault, nil for none.
func (s *sharded) set(shard int, with fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault[shard] = with
}

func (s *sharded) at(ctx context.Context, shard int) error {
	s.mu.Lock()
	with := s.fault[shard]
	s.mu.Unlock()
	if with == nil {
		return nil
	}
	return with(ctx)
}

func (s *sharded) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if err := s.at(ctx, s.Shard(r.Key)); err != nil {
		return sluice.Decision{}, err
	}
	return s.fake.Decide(ctx, r)
}

// DecideAll charges nothing if a server fails, and reports which.
func (s *sharded) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	var failed []int
	var why error
	for i := range rs {
		if err := s.at(ctx, s.Shard(rs[i].Key)); err != nil {
			failed, why = append(failed, i), err
		}
	}
	if failed != nil {
		return &driver.ShardError{Failed: failed, Err: why}
	}
	return s.fake.DecideAll(ctx, rs, out)
}

// cluster is a guard over a sharded store.
type cluster struct {
	*house
	*sharded
}

func buildCluster(t *testing.T, o guard.Options) *cluster {
	t.Helper()
	s := &sharded{fake: &fake{Store: newMemory(t, nil)}, fault: map[int]fault{}}
	o.Store = s
	return &cluster{build(t, o), s}
}

// stored decides about the key of a letter, and reports whether the store did.
func (c *cluster) stored(letter string) bool {
	c.house.Helper()
	return !c.decide(sluice.Request{Limit: other, Key: sluice.StringKey(letter), Cost: 1}).Degraded
}

// both decides a batch for two keys, and reports for each whether the store decided.
func (c *cluster) both(first, second string) [2]bool {
	c.house.Helper()
	var out [2]sluice.Decision
	err := c.house.DecideAll(c.Context(), []sluice.Request{
		{Limit: other, Key: sluice.StringKey(first), Cost: 1}, {Limit: other, Key: sluice.StringKey(second), Cost: 1},
	}, out[:])
	if err != nil || !out[0].Allowed || !out[1].Allowed {
		c.Fatalf("a batch should pass: %+v, %v", out, err)
	}
	return [2]bool{!out[0].Degraded, !out[1].Degraded}
}

// Each shard has a breaker of its own: requests for other shards go on.
func TestShardsFailAlone(t *testing.T) {
	for _, inline := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var turns []string
			c := buildCluster(t, guard.Options{Inline: inline, OnTransition: func(from, to guard.State, _ error) {
				turns = append(turns, from.String()+" "+to.String())
			}})
			c.set(1, heedful)
			for range 10 {
				if c.stored("b") || !c.stored("a") || !c.stored("c") {
					t.Fatal("the store decided about b, or not about a or c")
				}
			}
			if st := c.Stats(); c.State() != guard.StateOpen || st.Failing != 1 || st.Shards != 3 || !slices.Equal(c.Failing(), []int{1}) {
				t.Errorf("%v, %+v, failing: %v", c.State(), st, c.Failing())
			}
			began := time.Now()
			for range 100 {
				if c.stored("b") || !c.stored("a") {
					t.Fatal("the store decided about b, or not about a")
				}
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("calls of a shard that fails took %v", took)
			}
			c.set(1, nil)
			pass(500 * time.Millisecond)
			if !c.stored("b") || c.State() != guard.StateClosed || len(c.Failing()) != 0 {
				t.Errorf("%v after the fault", c.State())
			}
			if want := []string{"closed open", "open half-open", "half-open closed"}; !slices.Equal(turns, want) {
				t.Errorf("transitions %q, want %q", turns, want)
			}
		})
	}
}

// A batch opens the breakers of the failing shards only. Then the store decides about the others.
func TestBatchOfShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := buildCluster(t, guard.Options{})
		c.set(1, broken)
		for range 10 {
			if got := c.both("a", "b"); got != [2]bool{false, false} {
				t.Fatalf("the store decided %v", got)
			}
		}
		for range 10 {
			if got := c.both("a", "b"); got != [2]bool{true, false} {
				t.Fatalf("the store decided %v", got)
			}
		}
		if got := c.both("a", "c"); got != [2]bool{true, true} {
			t.Fatalf("the store decided %v", got)
		}
		c.set(0, broken)
		for range 10 {
			c.stored("a")
		}
		if got := c.both("a", "b"); got != [2]bool{false, false} {
			t.Fatalf("the store decided %v", got)
		}
	})
}

// A batch that hangs in one shard, in a store that does not say where, opens no breaker of a shard
// that answers other calls.
func TestBatchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := buildCluster(t, guard.Options{})
		release := make(chan struct{})
		c.set(1, hung(release))
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() { c.both("a", "b") })
			pass(time.Millisecond)
			c.stored("a")
		}
		calls.Wait()
		if got := c.Failing(); !slices.Equal(got, []int{1}) {
			t.Errorf("the shards %v fail, want 1", got)
		}
		close(release)
	})
}

// A batch of which one shard fails is charged in whole, or not at all.
func TestSplitBatch(t *testing.T) {
	few := limit("few", sluice.FixedWindow{Rate: sluice.PerDay(10)})
	lease := limit("few leases", sluice.Concurrency{Max: 2, TTL: time.Minute})
	a, b := sluice.StringKey("a"), sluice.StringKey("b")
	take := func(k sluice.Key, cost int64) sluice.Request { return sluice.Request{Limit: few, Key: k, Cost: cost} }
	shadow := func(r sluice.Request) sluice.Request {
		r.Shadow = true
		return r
	}
	peek := func(r sluice.Request) sluice.Request {
		r.Peek = true
		return r
	}
	debit := func(r sluice.Request) sluice.Request {
		r.Debit = true
		return r
	}
	hold := sluice.Request{Limit: lease, Key: b, Cost: 1, Member: 7}
	for _, tt := range []struct {
		name     string
		fallback sluice.Fallback
		rs       []sluice.Request // of the store's shard a, and of shard b, which fails
		want     string           // a, allowed; d, denied; and a capital for a degraded decision
		usedA    int64
		usedB    int64 // locally
		leases   int64 // locally
	}{
		{"allowed", sluice.FallbackLocal, []sluice.Request{take(a, 3), take(b, 4)}, "aA", 3, 4, 0},
		{"the store denies", sluice.FallbackLocal, []sluice.Request{take(a, 11), take(b, 4)}, "dA", 0, 0, 0},
		{"the fallback denies", sluice.FallbackLocal, []sluice.Request{take(a, 3), take(b, 11)}, "aD", 0, 0, 0},
		{"both deny", sluice.FallbackLocal, []sluice.Request{take(b, 11), take(a, 11)}, "Dd", 0, 0, 0},
		{"deny", sluice.FallbackDeny, []sluice.Request{take(a, 3), take(b, 4)}, "aD", 0, 0, 0},
		{"allow", sluice.FallbackAllow, []sluice.Request{take(b, 4), take(a, 3)}, "Aa", 3, 0, 0},
		{"a shadow is denied by the store", sluice.FallbackLocal, []sluice.Request{shadow(take(a, 11)), take(b, 4)}, "dA", 0, 4, 0},
		{"a shadow is denied locally", sluice.FallbackLocal, []sluice.Request{take(a, 3), shadow(take(b, 11))}, "aD", 3, 0, 0},
		{"shadows are charged", sluice.FallbackLocal, []sluice.Request{shadow(take(a, 3)), take(a, 11), shadow(take(b, 4))}, "adA", 3, 4, 0},
		{"a look", sluice.FallbackLocal, []sluice.Request{peek(take(a, 3)), peek(take(b, 4)), take(b, 1)}, "aAA", 0, 1, 0},
		{"a lease", sluice.FallbackLocal, []sluice.Request{take(a, 3), hold}, "aA", 3, 0, 1},
		{"a debit, and the store denies", sluice.FallbackLocal, []sluice.Request{take(a, 11), debit(take(b, 4))}, "dA", 0, 4, 0},
		{"a debit of the store, and the fallback denies", sluice.FallbackLocal, []sluice.Request{debit(take(a, 3)), take(b, 11)}, "aD", 3, 0, 0},
		{"a lease, and the store denies", sluice.FallbackLocal, []sluice.Request{take(a, 11), hold}, "dA", 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := buildCluster(t, guard.Options{Default: tt.fallback})
				c.set(1, broken)
				for range 10 {
					c.stored("b")
				}
				out := make([]sluice.Decision, len(tt.rs))
				if err := c.house.DecideAll(t.Context(), tt.rs, out); err != nil {
					t.Fatal(err)
				}
				got, denied := "", false
				for i, d := range out {
					word := "d"
					if d.Allowed {
						word = "a"
					}
					if d.Degraded {
						word = strings.ToUpper(word)
					}
					got += word
					denied = denied || !d.Allowed && !tt.rs[i].Shadow
				}
				if got != tt.want {
					t.Errorf("decided %s, want %s", got, tt.want)
				}
				for i, d := range out {
					if charged := !denied || tt.rs[i].Shadow || tt.rs[i].Debit; !tt.rs[i].Peek && (d.Receipt != sluice.Receipt{}) != (charged && d.Allowed) {
						t.Errorf("decision %d has the receipt %+v, want one only for what was charged: %v", i, d.Receipt, charged)
					}
				}
				count := func(l *sluice.Limit, k sluice.Key) int64 {
					d := c.decide(sluice.Request{Limit: l, Key: k, Peek: true})
					return d.Limit - d.Remaining
				}
				if n := count(few, a); n != tt.usedA {
					t.Errorf("%d units are used in the store, want %d", n, tt.usedA)
				}
				if tt.fallback == sluice.FallbackLocal {
					if n, m := count(few, b), count(lease, b); n != tt.usedB || m != tt.leases {
						t.Errorf("%d units are used locally and %d leases held, want %d and %d", n, m, tt.usedB, tt.leases)
					}
				}
			})
		})
	}
}

// When a part of a split batch fails too, all of it falls back, and a denial stays a denial.
func TestSplitBatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := buildCluster(t, guard.Options{})
		c.set(1, broken)
		for range 10 {
			c.stored("b")
		}
		denied := sluice.Decision{Reason: sluice.ReasonLimited, Limit: 10, RetryAfter: time.Hour}
		c.sharded.fake.set(func(context.Context) error {
			return &driver.DenialError{
				Denied: map[int]sluice.Decision{1: denied},
				Err:    &driver.ShardError{Failed: []int{0}, Err: errors.New("one server is gone")},
			}
		})
		few := limit("few", sluice.FixedWindow{Rate: sluice.PerDay(10)})
		out := make([]sluice.Decision, 3)
		err := c.house.DecideAll(t.Context(), []sluice.Request{
			{Limit: few, Key: sluice.StringKey("b"), Cost: 4}, {Limit: few, Key: sluice.StringKey("a"), Cost: 1}, {Limit: few, Key: sluice.StringKey("c"), Cost: 1},
		}, out)
		if err != nil || out[2] != denied || !out[0].Allowed || !out[1].Allowed || !out[1].Degraded {
			t.Errorf("want the stored denial and fallbacks for the rest, got %+v, %v", out, err)
		}
		c.sharded.fake.set(nil)
		d := c.decide(sluice.Request{Limit: few, Key: sluice.StringKey("b"), Peek: true})
		if n := d.Limit - d.Remaining; n != 0 {
			t.Errorf("%d units are used locally after a denial", n)
		}
	})
}

// The calls in flight are bounded for each shard: a shard that hangs takes no room of others.
func TestInFlightOfShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := buildCluster(t, guard.Options{MaxInFlight: 4, Failures: 100})
		release := make(chan struct{})
		c.set(1, hung(release))
		c.both("a", "b") // takes room of both
		for range 5 {
			if c.stored("b") {
				t.Fatal("a shard that hangs decided")
			}
		}
		if st := c.Stats(); st.InFlight != 1+4 || st.Shed != 2 {
			t.Errorf("%d calls are in flight and %d were shed, want one of a, four of b and 2: %+v", st.InFlight, st.Shed, st)
		}
		if !c.stored("a") || !c.stored("c") {
			t.Error("a hung shard took the room of others")
		}
		close(release)
		synctest.Wait()
		if st := c.Stats(); st.InFlight != 0 {
			t.Errorf("%d calls are in flight in the end", st.InFlight)
		}
	})
}

// A shard that fails and is not used any more may be gone: it does not count.
func TestShardThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := buildCluster(t, guard.Options{})
		c.set(3, broken)
		for range 10 {
			c.stored("d")
		}
		if c.State() != guard.StateOpen {
			t.Fatalf("the failing shard left the breaker %v, want open", c.State())
		}
		pass(2 * time.Minute)
		if st := c.Stats(); c.State() != guard.StateClosed || st.Failing != 0 || len(c.Failing()) != 0 {
			t.Errorf("a shard that is gone still counts as failing: %v, %+v", c.State(), st)
		}
	})
}

// Any number of shards is bounded.
func TestAnyNumberOfShardsIsBounded(t *testing.T) {
	c := buildCluster(t, guard.Options{})
	for _, first := range []string{"\xff", "a", "A"} { // far up, the first, and below it
		if !c.stored(first) {
			t.Errorf("the store did not decide about %q", first)
		}
	}
}
