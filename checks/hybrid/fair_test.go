package hybrid

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// The test has many keys with low rates, because a busy machine sends requests in clumps. The clumps are too
// small to matter for a low rate, and many keys make many requests in all.
const (
	fairKeys = 16
	fairRate = 100
	fairSync = 500 * time.Millisecond
)

// fairTerms are a limit of half of what the processes of the test request.
var fairTerms = fleet.Terms{
	Name: "fair", Algorithm: "bucket", Count: fairRate, Period: time.Second,
	Hybrid: &sluice.Hybrid{Sync: fairSync, Stranded: 0.25},
}

// TestProcessesShareFairly lets three processes request 1:1:8 of twice the limit. After two seconds each gets the
// same part of what it requests. Processes that go idle give up what they hold within two
// synchronisations. A process that wakes up while others use most of the limit is served by its first
// request.
func TestProcessesShareFairly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	demands := []float64{fairRate / 5, fairRate / 5, 8 * fairRate / 5}
	specs := make([]fleet.Spec, len(demands))
	for i, d := range demands {
		specs[i] = fleet.Spec{
			Subject: fleet.Hybrid, Route: fleet.Route{Addrs: []string{server.Addr()}}, Seed: uint64(i), Poisson: true,
			Loads: []fleet.Load{{Terms: fairTerms, Key: "key", PerSecond: d, Copies: fairKeys}},
		}
	}
	all, err := fleet.StartAll(specs)
	c := &crew{T: t}
	t.Cleanup(func() {
		for _, p := range all {
			_ = p.Kill()
		}
	})
	c.must(err)
	c.pass(2 * time.Second)
	for attempt := 1; ; attempt++ {
		unfair := c.unfair(all, demands)
		if unfair == "" {
			break
		}
		if attempt == 3 { // a busy machine disturbs an observation
			t.Errorf("the shares are not fair: %s", unfair)
			break
		}
		t.Log(unfair)
	}
	c.idle(server, all)
	c.wake(all)
	for _, p := range all {
		c.must(p.End())
	}
}

// unfair observes the processes for a while. It reports a process that does not get the same part of its
// requests as all processes together, within a tenth.
func (c *crew) unfair(all []*fleet.Process, demands []float64) (problem string) {
	c.Helper()
	before := c.stats(all)
	c.pass(3 * time.Second)
	after := c.stats(all)
	var requested, got int64
	for i, s := range after {
		requested += answered(s) - answered(before[i])
		got += s.Allowed - before[i].Allowed
	}
	fair := float64(got) / float64(requested)
	for i, s := range after {
		share := float64(s.Allowed-before[i].Allowed) / float64(answered(s)-answered(before[i]))
		text := fmt.Sprintf("process %d, which requests %.0f/s of each key, got %.1f %% of it; all together got %.1f %%", i, demands[i], 100*share, 100*fair)
		c.Log(text)
		if share < 0.9*fair || share > 1.1*fair {
			problem = text
		}
	}
	return problem
}

// everyKey returns the same demand for all keys.
func everyKey(perSecond float64) []float64 { return slices.Repeat([]float64{perSecond}, fairKeys) }

// answered returns how many requests were not errors. A call may time out on a busy machine.
func answered(s fleet.Stats) int64 { return s.Decided - s.Errors }

func (c *crew) stats(all []*fleet.Process) []fleet.Stats {
	c.Helper()
	var stats []fleet.Stats
	for _, p := range all {
		s, err := p.Stats()
		c.must(err)
		stats = append(stats, s)
	}
	return stats
}

// idle ends all demand, and holds the escrow to be empty two synchronisations later.
func (c *crew) idle(server *redistest.Server, all []*fleet.Process) {
	c.Helper()
	store, err := rueidisstore.New(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true}, redisstore.Options{})
	c.must(err)
	defer store.Close()
	limit, err := fairTerms.Limit()
	c.must(err)
	for _, p := range all {
		c.must(p.Demand(everyKey(0)...))
	}
	begun := time.Now()
	for seq := uint64(1); ; seq++ {
		claims, out := []driver.Claim{{Limit: limit, Key: sluice.StringKey("key0"), Seq: seq}}, make([]driver.Grant, 1)
		store.Grant(redistest.Within(c.T, redistest.Soon), 12345, claims, out)
		c.must(out[0].Err)
		took := time.Since(begun)
		if out[0].Escrow == 0 {
			c.Logf("the escrow was empty %v after the last request", took)
			return
		}
		// The bound, and the time of some calls on a busy machine.
		if took > 2*fairSync+fairSync/4 {
			c.Fatalf("%d units are in escrow %v after the last request, of %d holders", out[0].Escrow, took, out[0].Holders)
		}
		c.pass(5 * time.Millisecond)
	}
}

// wake lets the first process wake up while the others request four fifths of the limit.
func (c *crew) wake(all []*fleet.Process) {
	c.Helper()
	for _, p := range all[1:] {
		c.must(p.Demand(everyKey(fairRate * 2 / 5)...))
	}
	c.pass(2 * fairSync)
	before := c.stats(all[:1])[0]
	c.must(all[0].Demand(everyKey(1)...))
	for {
		c.pass(10 * time.Millisecond)
		now := c.stats(all[:1])[0]
		if decided := answered(now) - answered(before); decided > 0 {
			c.must(all[0].Demand(everyKey(0)...))
			if now.Allowed-before.Allowed != decided {
				c.Errorf("%d of the first %d requests were admitted", now.Allowed-before.Allowed, decided)
			}
			return
		}
	}
}
