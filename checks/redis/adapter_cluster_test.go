package redis

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// A proxied is a cluster that clients reach through a proxy for each node.
type proxied struct {
	*redistest.Cluster
	sha     string
	route   adapterRoute
	proxies map[*redistest.Server]*redistest.Proxy
}

func startProxied(t *testing.T) *proxied {
	t.Helper()
	p := &proxied{
		Cluster: redistest.StartCluster(t, 3, 0),
		proxies: make(map[*redistest.Server]*redistest.Proxy),
		route:   adapterRoute{cluster: true, through: make(map[string]string)},
	}
	p.route.addrs = p.Addrs()
	for _, s := range p.Nodes {
		p.sha = load(t, s)
		p.proxies[s] = redistest.StartProxy(t, s.Addr())
		p.route.through[s.Addr()] = p.proxies[s].Addr()
	}
	return p
}

// owner returns the master of a key, its slot, and another master.
func (p *proxied) owner(t *testing.T, key string) (slot int, owner, other *redistest.Server) {
	t.Helper()
	slot, err := p.Slot(within(t, soon), key)
	if err != nil {
		t.Fatal(err)
	}
	if owner, err = p.Owner(within(t, soon), slot); err != nil {
		t.Fatal(err)
	}
	for _, other = range p.Nodes {
		if other != owner {
			return slot, owner, other
		}
	}
	t.Fatal("the cluster has one node")
	return 0, nil, nil
}

func TestAdapterCluster(t *testing.T) {
	p := startProxied(t)
	eachAdapter(t, func(t *testing.T, a adapter) {
		c := a.dial(t, p.route)
		inFullSwing(t, c, p.sha)
		t.Run("moved", func(t *testing.T) { testMoved(t, p, c, "{moved "+a.name+"}") })
		t.Run("ask", func(t *testing.T) { testAsk(t, p, c, "{ask "+a.name+"}") })
		t.Run("down", func(t *testing.T) { testFaultyNode(t, p, c, "{down "+a.name+"}") })
	})
	// Commands that clients send on their own need permission, and may hang.
	for _, s := range p.Nodes {
		stats, err := s.CommandStats(within(t, soon))
		if err != nil {
			t.Fatal(err)
		}
		if n := stats["command"].Calls + stats["command|info"].Calls; n > 0 {
			t.Errorf("clients asked %d times what commands there are", n)
		}
	}
}

// testMoved follows a slot that has gone elsewhere, and repeats nothing when the
// reply from there is lost.
func testMoved(t *testing.T, p *proxied, c redisstore.Client, tag string) {
	slot, _, to := p.owner(t, tag)
	got, err := c.EvalSHA(within(t, soon), p.sha, []string{tag}, []string{""})
	wantReply(t, "1", got, err)
	if err := p.MigrateSlot(within(t, soon), slot, to); err != nil {
		t.Fatal(err)
	}
	if err := p.proxies[to].Cut("evalsha", 2); err != nil {
		t.Fatal(err)
	}
	_, err = c.EvalSHA(within(t, soon), p.sha, []string{tag}, []string{""})
	wantUnknown(t, err)
	if err := p.proxies[to].Pass(); err != nil {
		t.Fatal(err)
	}
	got, err = c.EvalSHA(within(t, soon), p.sha, []string{tag}, []string{""})
	wantReply(t, "3", got, err)
}

// testAsk does the same while the slot is on its way: keys that are still at the old
// owner, keys that are not, and calls with one of each, which nobody can answer.
func testAsk(t *testing.T, p *proxied, c redisstore.Client, tag string) {
	slot, from, to := p.owner(t, tag)
	old, fresh := tag+"old", tag+"fresh"
	got, err := c.EvalSHA(within(t, soon), p.sha, []string{old}, []string{""})
	wantReply(t, "1", got, err)
	m, err := p.BeginMigration(within(t, soon), slot, to)
	if err != nil {
		t.Fatal(err)
	}
	got, err = c.EvalSHA(within(t, soon), p.sha, []string{old}, []string{""})
	wantReply(t, "2", got, err)
	got, err = c.EvalSHA(within(t, soon), p.sha, []string{fresh}, []string{""})
	wantReply(t, "1", got, err)

	began := time.Now()
	_, err = c.EvalSHA(within(t, soon), p.sha, []string{old, fresh}, []string{""})
	wantServerError(t, err, "TRYAGAIN ")
	if took := time.Since(began); took > time.Second {
		t.Errorf("TRYAGAIN came back after %v", took)
	}

	if err := p.proxies[to].Cut("evalsha", 7); err != nil { // in the middle of two replies, that to ASKING first
		t.Fatal(err)
	}
	_, err = c.EvalSHA(within(t, soon), p.sha, []string{fresh}, []string{""})
	wantUnknown(t, err)
	if err := p.proxies[to].Pass(); err != nil {
		t.Fatal(err)
	}
	got, err = c.EvalSHA(within(t, soon), p.sha, []string{fresh}, []string{""})
	wantReply(t, "3", got, err)

	if err := p.proxies[to].Refuse(); err != nil {
		t.Fatal(err)
	}
	if _, err = c.EvalSHA(within(t, soon), p.sha, []string{fresh}, []string{""}); err == nil {
		t.Fatal("an answer came from a node that cannot be reached")
	}
	if err := p.proxies[to].Pass(); err != nil {
		t.Fatal(err)
	}
	if moved, err := m.Move(within(t, soon), 100); err != nil || moved != 1 {
		t.Fatalf("moved %d keys from %s: %v", moved, from.Addr(), err)
	}
	if err := m.End(within(t, soon)); err != nil {
		t.Fatal(err)
	}
	wantRecovery(t, c, p.sha)
	got, err = c.EvalSHA(within(t, soon), p.sha, []string{old}, []string{""})
	wantReply(t, "3", got, err)
	got, err = c.EvalSHA(within(t, soon), p.sha, []string{fresh}, []string{""})
	wantReply(t, "4", got, err)
}

// testFaultyNode cuts, silences and loses one node of three.
func testFaultyNode(t *testing.T, p *proxied, c redisstore.Client, tag string) {
	_, owner, _ := p.owner(t, tag)
	proxy := p.proxies[owner]
	if err := proxy.Cut("evalsha", 1); err != nil {
		t.Fatal(err)
	}
	_, err := c.EvalSHA(within(t, soon), p.sha, []string{tag}, []string{""})
	wantUnknown(t, err)
	if err := proxy.Pass(); err != nil {
		t.Fatal(err)
	}
	got, err := c.EvalSHA(within(t, soon), p.sha, []string{tag}, []string{""})
	wantReply(t, "2", got, err)

	// Now no byte comes through any more, also not for clients that look in the
	// background who is still there.
	if err := proxy.Hold(); err != nil {
		t.Fatal(err)
	}
	var calls punctual
	for i := range 40 {
		if i%10 == 5 {
			proxy.Drop()
		}
		calls.call(t, c, p.sha, tag+"silent")
	}
	calls.check(t)
	if err := proxy.Refuse(); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, c, p.sha, tag+"refused")
	wantCount(t, owner, tag+"refused", 0)
	if err := proxy.Pass(); err != nil {
		t.Fatal(err)
	}
	wantRecovery(t, c, p.sha)
}

func TestAdapterSentinel(t *testing.T) {
	s := redistest.StartSentinels(t)
	var addrs []string
	for _, one := range s.Sentinels {
		addrs = append(addrs, one.Addr())
	}
	eachAdapter(t, func(t *testing.T, a adapter) {
		c := a.dial(t, adapterRoute{addrs: addrs, master: redistest.SentinelName})
		got, err := c.Eval(within(t, soon), counting, []string{a.name}, []string{""})
		wantReply(t, "1", got, err)
		wantCount(t, s.Nodes[0], a.name, 1)
	})
}
