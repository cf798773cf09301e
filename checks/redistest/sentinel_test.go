package redistest

import (
	"testing"
)

func TestSentinelsFailOver(t *testing.T) {
	s := StartSentinels(t, ACL("user default on nopass ~* &* +@all"))
	ctx := short(t)
	old, err := s.Master(ctx)
	if err != nil || old != s.Nodes[0] {
		t.Fatalf("the master is not the first node: %v", err)
	}
	if got := s.Addrs(); len(got) != 3 || got[0] != s.Sentinels[0].Addr() {
		t.Errorf("addresses of the sentinels: %q", got)
	}
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	master, err := s.WaitFailover(ctx, old)
	if err != nil || master != s.Nodes[1] {
		t.Fatalf("the replica is not master: %v", err)
	}
	if got, err := master.Text(ctx, "SET", "a", "1"); got != "OK" || err != nil {
		t.Errorf("SET at the new master: %q, %v", got, err)
	}

	// The old one comes back as a replica, and takes over again by order.
	if err := old.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitOK(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Failover(ctx); got != old || err != nil {
		t.Errorf("another than the replica took over, or none: %v", err)
	}
	if got, err := old.Text(ctx, "GET", "a"); got != "1" || err != nil {
		t.Errorf("GET at the old master: %q, %v", got, err)
	}
}
