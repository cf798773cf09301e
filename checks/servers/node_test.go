package servers

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// While one master of a cluster hangs, rules answer by on_store_error only for the keys of that
// master, and Redis decides all others. The pages for operators report how many nodes fail.
func TestOneMasterHangs(t *testing.T) {
	t.Parallel()
	const clients, rounds = 30, 10
	cluster := redistest.StartCluster(t, 3, 0, redistest.Config("cluster-require-full-coverage no"))
	ctx := redistest.Within(t, redistest.Soon)
	var healthy, sick []string
	var hung *redistest.Server
	for i := range clients {
		client := fmt.Sprint("192.0.2.", i+1)
		slot, err := cluster.Slot(ctx, "{"+client+"}")
		if err != nil {
			t.Fatal(err)
		}
		owner, err := cluster.Owner(ctx, slot)
		if err != nil {
			t.Fatal(err)
		}
		if hung == nil {
			hung = owner
		}
		if owner == hung {
			sick = append(sick, client)
		} else {
			healthy = append(healthy, client)
		}
	}
	s := serve(t, fmt.Sprintf("store: {redis: {deadline: 1s, cluster: true, addresses: ['%s']}}\n", strings.Join(cluster.Addrs(), "', '"))+`
rules:
  - {name: open, match: {path: /open}, key: client_ip, limit: {algorithm: fixed_window, rate: 100/30d}}
`)
	for _, client := range append(sick, healthy...) {
		process.Eventually(t, "a decision of Redis", func() bool { return !s.mustCheck("/open", client).Degraded })
	}
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "a report of the failing node", func() bool {
		var calls sync.WaitGroup
		for range 12 {
			calls.Go(func() { _, _ = s.check("/open", sick[0]) })
		}
		calls.Wait()
		return s.storeIs("degraded") && s.figure("sluice_store_nodes_failing") == "1"
	})
	if _, text := s.ready(); !strings.Contains(text, "rules answer by on_store_error for the keys of 1 of 3 nodes; ") {
		t.Errorf("/readyz answers %q", text)
	}
	degraded := 0
	for range rounds {
		for _, client := range healthy {
			if s.mustCheck("/open", client).Degraded {
				degraded++
			}
		}
	}
	if most := rounds * len(healthy) / 100; degraded > most {
		t.Errorf("%d of %d requests for keys of healthy masters were not decided by Redis, want up to %d", degraded, rounds*len(healthy), most)
	}
	if a := s.mustCheck("/open", sick[0]); !a.Degraded || !a.Allowed {
		t.Errorf("a key of the hung master: %+v", a)
	}
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
	// Without requests: the server probes the node by itself.
	took := process.Eventually(t, "recovery", func() bool { return s.storeIs("ok") && s.figure("sluice_store_nodes_failing") == "0" })
	t.Logf("recovered %v after the master went on", took)
}
