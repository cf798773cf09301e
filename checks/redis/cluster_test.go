package redis

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// Each adapter follows a cluster whose slots move and whose nodes fail.
func TestAdapterCluster(t *testing.T) {
	t.Parallel()
	p := adapters.StartProxied(t)
	sha := ""
	for _, s := range p.Nodes {
		sha = load(t, s)
	}
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		c := a.Dial(t, p.Route)
		inFullSwing(t, c, sha)
		t.Run("moved", func(t *testing.T) { testMoved(t, p, c, sha, "{moved "+a.Name+"}") })
		t.Run("migrating", func(t *testing.T) { testMigrating(t, p, c, sha, "{migrating "+a.Name+"}") })
		t.Run("down", func(t *testing.T) { testFaultyNode(t, p, c, sha, "{down "+a.Name+"}") })
	})
	// Commands that clients send on their own need permission, and may hang.
	for _, s := range p.Nodes {
		stats, err := s.CommandStats(redistest.Within(t, redistest.Soon))
		if err != nil {
			t.Fatal(err)
		}
		if n := stats["command"].Calls + stats["command|info"].Calls; n > 0 {
			t.Errorf("clients called COMMAND %d times", n)
		}
	}
}

// testMoved follows a slot that has gone elsewhere, and repeats nothing when the
// reply from there is lost.
func testMoved(t *testing.T, p *adapters.Proxied, c redisstore.Client, sha, tag string) {
	slot, _, to := p.OwnerOf(t, tag)
	got, err := c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{tag}, []string{""})
	wantReply(t, "1", got, err)
	if err := p.MigrateSlot(redistest.Within(t, redistest.Soon), slot, to); err != nil {
		t.Fatal(err)
	}
	if err := p.Proxies[to].Cut("evalsha", 2); err != nil {
		t.Fatal(err)
	}
	_, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{tag}, []string{""})
	wantUnknown(t, err)
	if err := p.Proxies[to].Pass(); err != nil {
		t.Fatal(err)
	}
	got, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{tag}, []string{""})
	wantReply(t, "3", got, err)
}

// testMigrating does the same while the slot is on its way: keys that are still at the old
// owner, keys that are not, and calls with one of each, which nobody can answer.
func testMigrating(t *testing.T, p *adapters.Proxied, c redisstore.Client, sha, tag string) {
	slot, from, to := p.OwnerOf(t, tag)
	old, fresh := tag+"old", tag+"fresh"
	got, err := c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{old}, []string{""})
	wantReply(t, "1", got, err)
	m, err := p.BeginMigration(redistest.Within(t, redistest.Soon), slot, to)
	if err != nil {
		t.Fatal(err)
	}
	got, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{old}, []string{""})
	wantReply(t, "2", got, err)
	got, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{fresh}, []string{""})
	wantReply(t, "1", got, err)

	began := time.Now()
	_, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{old, fresh}, []string{""})
	wantServerError(t, err, "TRYAGAIN ")
	if took := time.Since(began); took > time.Second {
		t.Errorf("TRYAGAIN came back after %v", took)
	}

	if err := p.Proxies[to].Cut("evalsha", 7); err != nil { // in the middle of two replies, the first of which acknowledges the redirection
		t.Fatal(err)
	}
	_, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{fresh}, []string{""})
	wantUnknown(t, err)
	if err := p.Proxies[to].Pass(); err != nil {
		t.Fatal(err)
	}
	got, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{fresh}, []string{""})
	wantReply(t, "3", got, err)

	if err := p.Proxies[to].Refuse(); err != nil {
		t.Fatal(err)
	}
	if _, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{fresh}, []string{""}); err == nil {
		t.Fatal("an answer came from a node that cannot be reached")
	}
	if err := p.Proxies[to].Pass(); err != nil {
		t.Fatal(err)
	}
	if moved, err := m.Move(redistest.Within(t, redistest.Soon), 100); err != nil || moved != 1 {
		t.Fatalf("moved %d keys from %s: %v", moved, from.Addr(), err)
	}
	if err := m.End(redistest.Within(t, redistest.Soon)); err != nil {
		t.Fatal(err)
	}
	wantRecovery(t, c, sha)
	got, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{old}, []string{""})
	wantReply(t, "3", got, err)
	got, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{fresh}, []string{""})
	wantReply(t, "4", got, err)
}

// testFaultyNode cuts, silences and loses one node of three.
func testFaultyNode(t *testing.T, p *adapters.Proxied, c redisstore.Client, sha, tag string) {
	_, owner, _ := p.OwnerOf(t, tag)
	proxy := p.Proxies[owner]
	if err := proxy.Cut("evalsha", 1); err != nil {
		t.Fatal(err)
	}
	_, err := c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{tag}, []string{""})
	wantUnknown(t, err)
	if err := proxy.Pass(); err != nil {
		t.Fatal(err)
	}
	got, err := c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{tag}, []string{""})
	wantReply(t, "2", got, err)

	// From here on no byte comes through, also not for the probes that clients send in the
	// background.
	if err := proxy.Hold(); err != nil {
		t.Fatal(err)
	}
	calls := punctual{stalls: process.MeasureStalls(t)}
	for i := range 40 {
		if i%10 == 5 {
			proxy.Drop()
		}
		calls.call(t, c, sha, tag+"silent")
	}
	calls.check(t)
	if err := proxy.Refuse(); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, c, sha, tag+"refused")
	wantCount(t, owner, tag+"refused", 0)
	if err := proxy.Pass(); err != nil {
		t.Fatal(err)
	}
	wantRecovery(t, c, sha)
}

// Each adapter reaches the master that the sentinels name.
func TestAdapterSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		c := a.Dial(t, adapters.ToSentinels(s))
		got, err := c.Eval(redistest.Within(t, redistest.Soon), counting, []string{a.Name}, []string{""})
		wantReply(t, "1", got, err)
		wantCount(t, s.Nodes[0], a.Name, 1)
	})
}
