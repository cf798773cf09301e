package redistest

import "testing"

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

	// The old one comes back as a replica, and one can take over by order.
	if err := old.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitOK(ctx); err != nil {
		t.Fatal(err)
	}
	if master, err = s.Master(ctx); err != nil {
		t.Fatal(err)
	}
	next, err := s.Failover(ctx)
	if err != nil || next == master {
		t.Fatalf("nobody took over: %v", err)
	}
	if got, err := next.Text(ctx, "SET", "a", "2"); got != "OK" || err != nil {
		t.Errorf("SET at the next master: %q, %v", got, err)
	}
}
