package adapters

import (
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

// A Proxied is a cluster that clients reach through a proxy for each node.
type Proxied struct {
	*redistest.Cluster
	Route   Route
	Proxies map[*redistest.Server]*redistest.Proxy
}

// StartProxied runs a cluster of three masters with their proxies until the test ends.
func StartProxied(tb testing.TB) *Proxied {
	tb.Helper()
	p := &Proxied{
		Cluster: redistest.StartCluster(tb, 3, 0),
		Proxies: make(map[*redistest.Server]*redistest.Proxy),
	}
	p.Route = ToCluster(p.Cluster)
	p.Route.Through = make(map[string]string)
	for _, s := range p.Nodes {
		p.Proxies[s] = redistest.StartProxy(tb, s.Addr())
		p.Route.Through[s.Addr()] = p.Proxies[s].Addr()
	}
	return p
}

// OwnerOf returns the master of a key, its slot, and another master.
func (p *Proxied) OwnerOf(tb testing.TB, key string) (slot int, owner, other *redistest.Server) {
	tb.Helper()
	ctx := redistest.Within(tb, redistest.Soon)
	slot, err := p.Slot(ctx, key)
	if err != nil {
		tb.Fatal(err)
	}
	if owner, err = p.Owner(ctx, slot); err != nil {
		tb.Fatal(err)
	}
	for _, other = range p.Nodes {
		if other != owner {
			return slot, owner, other
		}
	}
	tb.Fatal("the cluster has one node")
	return 0, nil, nil
}
