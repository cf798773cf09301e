package decisions

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// The limits of a flood, by what answers when the store cannot write.
var (
	evictionAllow = sluice.MustLimit("eviction allow", sluice.TokenBucket{Rate: sluice.PerDay(1000), Burst: 1_000_000})
	evictionDeny  = sluice.MustLimit("eviction deny", sluice.SlidingWindow{Rate: sluice.PerDay(1_000_000)})
)

// TestFullServersRefuseOrForget fills the memory of servers with keys of a flood. A server that refuses writes
// keeps all states, and the ladder decides for new keys. A server that evicts forgets states of
// limited keys; the check at the start warns of it.
func TestFullServersRefuseOrForget(t *testing.T) {
	t.Parallel()
	const room, flood, attackers = 200 << 10, 4_000, 50
	for _, test := range []struct {
		policy  string
		warning string
		forgets bool
	}{
		{"noeviction", "", false},
		{"allkeys-lru", "maxmemory-policy is allkeys-lru", true},
		{"volatile-ttl", "maxmemory-policy is volatile-ttl", true},
	} {
		t.Run(test.policy, func(t *testing.T) {
			s := redistest.Start(t, redistest.Config("maxmemory-policy "+test.policy))
			store := adapters.Rueidis.Open(t, adapters.To(s.Addr()), redisstore.Options{})
			g, err := guard.New(guard.Options{Store: store, Deadline: redistest.Soon, Fallback: func(l *sluice.Limit) sluice.Fallback {
				if l == evictionAllow {
					return sluice.FallbackAllow
				}
				return sluice.FallbackDeny
			}})
			if err != nil {
				t.Fatal(err)
			}
			// Their budgets end before the budgets of the flood, so that they go first where the
			// policy looks at that.
			limit := sluice.MustLimit("attacker", sluice.FixedWindow{Rate: sluice.PerMinute(5), Opened: true})
			attacker := func(i int) sluice.Request {
				return sluice.Request{Limit: limit, Key: sluice.StringKey(fmt.Sprint("attacker ", i)), Cost: 5}
			}
			// The scripts take as much room as many keys, and are not what is to be measured.
			if _, err := store.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Decide(t.Context(), attacker(attackers)); err != nil {
				t.Fatal(err)
			}
			used := memoryUsed(t, s)
			if _, err := s.Do(t.Context(), "CONFIG", "SET", "maxmemory", strconv.FormatInt(used+room, 10)); err != nil {
				t.Fatal(err)
			}
			r, err := store.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Warnings, "\n"); !strings.HasPrefix(got, test.warning) || (got == "") != (test.warning == "") {
				t.Errorf("the check warns %q, want %q", got, test.warning)
			}

			for i := range attackers {
				if d, err := g.Decide(t.Context(), attacker(i)); err != nil || !d.Allowed || d.Degraded {
					t.Fatalf("attacker %d used units before the flood: %+v, %v", i, d, err)
				}
			}
			degraded := 0
			for i := range flood {
				d, err := g.Decide(t.Context(), sluice.Request{Limit: evictionAllow, Key: sluice.StringKey(fmt.Sprint("flood ", i)), Cost: 1})
				if err != nil || !d.Allowed {
					t.Fatalf("key %d of the flood should be allowed: %+v, %v", i, d, err)
				}
				if d.Degraded {
					degraded++
				}
			}
			forgotten := 0
			for i := range attackers {
				d, err := store.Decide(t.Context(), attacker(i))
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					forgotten++
				}
			}
			t.Logf("%d of %d exhausted keys were forgotten, %d answers were degraded", forgotten, attackers, degraded)
			if test.forgets {
				if degraded > 0 || forgotten == 0 || evicted(t, s) == 0 {
					t.Errorf("%d answers are degraded, %d exhausted keys forgotten, %d keys evicted", degraded, forgotten, evicted(t, s))
				}
				return
			}
			if degraded == 0 || forgotten > 0 || evicted(t, s) > 0 {
				t.Errorf("%d answers are degraded, %d exhausted keys forgotten, %d keys evicted", degraded, forgotten, evicted(t, s))
			}
			// A new key of a limit that is to be denied then.
			d, err := g.Decide(t.Context(), sluice.Request{Limit: evictionDeny, Key: sluice.StringKey("new"), Cost: 1})
			if err != nil || d.Allowed || !d.Degraded || d.Reason != sluice.ReasonStoreError {
				t.Errorf("a new key gets %+v, %v", d, err)
			}
			redistest.CheckTTL(t, s)
		})
	}
}

func memoryUsed(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	return infoNumber(t, s, "memory", "used_memory")
}

func evicted(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	return infoNumber(t, s, "stats", "evicted_keys")
}

func infoNumber(t *testing.T, s *redistest.Server, section, field string) int64 {
	t.Helper()
	info, err := s.Info(t.Context(), section)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(info[field], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
