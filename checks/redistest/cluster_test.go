package redistest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestClusterServesAllSlots(t *testing.T) {
	c := StartCluster(t, 3, 0)
	ctx := short(t)
	masters, err := c.Masters(ctx)
	if err != nil || !slices.Equal(masters, c.Nodes) {
		t.Fatalf("masters: %v, %v; want all nodes, in their order", masters, err)
	}
	if got := c.Addrs(); len(got) != 3 || got[2] != c.Nodes[2].Addr() {
		t.Errorf("addresses: %q", got)
	}
	for slot, want := range map[int]*Server{0: c.Nodes[0], 5461: c.Nodes[1], 10922: c.Nodes[2], Slots - 1: c.Nodes[2]} {
		if got, err := c.Owner(ctx, slot); got != want || err != nil {
			t.Errorf("slot %d has another owner, or none: %v", slot, err)
		}
	}
	for i := range 20 {
		key := fmt.Sprintf("key-%d{tag-%d}", i, i)
		slot, err := c.Slot(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		owner, err := c.Owner(ctx, slot)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Nodes {
			_, err := s.Do(ctx, "SET", key, "1")
			if s == owner && err != nil {
				t.Errorf("the owner of slot %d: %v", slot, err)
			}
			if s != owner && (err == nil || err.Error() != "MOVED "+strconv.Itoa(slot)+" "+owner.Addr()) {
				t.Errorf("another than the owner of slot %d: %v", slot, err)
			}
		}
	}
}

// A slot moves with all of its keys. Half way, the old owner redirects callers to the new one.
func TestMigrateSlot(t *testing.T) {
	c := StartCluster(t, 3, 0, ACL("user default on nopass ~* &* +@all"))
	ctx := short(t)
	const keys = 250
	slot, err := c.Slot(ctx, "{tag}")
	if err != nil {
		t.Fatal(err)
	}
	from, err := c.Owner(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	to := c.Nodes[(slices.Index(c.Nodes, from)+1)%len(c.Nodes)]
	for i := range keys {
		if _, err := from.Do(ctx, "SET", fmt.Sprintf("{tag}%d", i), strconv.Itoa(i), "PX", "100000"); err != nil {
			t.Fatal(err)
		}
	}

	// Half way, the old owner sends callers to the new one.
	m, err := c.BeginMigration(ctx, slot, to)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := m.Move(ctx, 50); n != 50 || err != nil {
		t.Fatalf("moved %d keys, %v; want 50", n, err)
	}
	asked := 0
	for i := range keys {
		_, err := from.Do(ctx, "GET", fmt.Sprintf("{tag}%d", i))
		if err != nil && err.Error() == "ASK "+strconv.Itoa(slot)+" "+to.Addr() {
			asked++
		}
	}
	if asked != 50 {
		t.Errorf("half way %d keys are elsewhere, want 50", asked)
	}

	for n := 1; n > 0; {
		if n, err = m.Move(ctx, 100); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.End(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Owner(ctx, slot); got != to || err != nil {
		t.Fatalf("the slot is not at its new owner: %v", err)
	}
	for i := range keys {
		key := fmt.Sprintf("{tag}%d", i)
		if got, err := to.Text(ctx, "GET", key); got != strconv.Itoa(i) || err != nil {
			t.Fatalf("%s at the new owner: %q, %v", key, got, err)
		}
	}
	if left, err := to.KeysWithoutTTL(ctx); len(left) > 0 || err != nil {
		t.Errorf("keys lost their TTL: %q, %v", left, err)
	}

	// And back, in one call.
	if err := c.MigrateSlot(ctx, slot, from); err != nil {
		t.Fatal(err)
	}
	if got, err := from.Int(ctx, "CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)); got != keys || err != nil {
		t.Errorf("%d keys came back, %v; want %d", got, err, keys)
	}
	if err := c.MigrateSlot(ctx, slot, from); err == nil {
		t.Error("moving a slot to its owner: no error")
	}
}

func TestClusterFailsOver(t *testing.T) {
	c := StartCluster(t, 3, 1)
	ctx := short(t)
	masters, err := c.Masters(ctx)
	if err != nil || !slices.Equal(masters, c.Nodes[:3]) {
		t.Fatalf("masters: %v, %v; want the first three nodes", masters, err)
	}

	// By order.
	replicas, err := c.Replicas(ctx, masters[0])
	if err != nil || len(replicas) != 1 {
		t.Fatalf("replicas: %v, %v; want one", replicas, err)
	}
	if got, err := c.Failover(ctx, masters[0]); got != replicas[0] || err != nil {
		t.Fatalf("another than the replica took over, or none: %v", err)
	}
	if got, err := c.Owner(ctx, 0); got != replicas[0] || err != nil {
		t.Errorf("slot 0 is not at the new master: %v", err)
	}

	// By a fault.
	old := masters[1]
	if err := c.KillMaster(ctx, old); err != nil {
		t.Fatal(err)
	}
	owner, err := c.Owner(ctx, Slots/2)
	if err != nil || owner == old {
		t.Fatalf("the killed master still owns its slots, or nobody: %v", err)
	}
	if err := old.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, "the killed master to be a replica", func(ctx context.Context) error {
		replicas, err := c.Replicas(ctx, owner)
		if err == nil && !slices.Contains(replicas, old) {
			err = fmt.Errorf("the replicas are %v", replicas)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitOK(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Do(ctx, "SET", "{tag}", "1"); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
		t.Errorf("the killed master takes writes again, or fails otherwise: %v", err)
	}
}

func TestClusterWithoutAnOwnerSaysSo(t *testing.T) {
	c := StartCluster(t, 3, 0)
	if err := c.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := until(short(t), "the cluster to be down", func(ctx context.Context) error {
		_, err := c.Nodes[1].Do(ctx, "GET", "a")
		if err == nil || !strings.HasPrefix(err.Error(), "CLUSTERDOWN") {
			return fmt.Errorf("GET: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[0].Restart(); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitOK(short(t)); err != nil {
		t.Fatal(err)
	}
}
