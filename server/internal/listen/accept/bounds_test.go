package accept

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
)

// TestClientsOfConnections counts an IPv6 client by its /64, and forgets clients without connections.
func TestClientsOfConnections(t *testing.T) {
	l := &boundedListener{
		bounds:  Bounds{PerClient: 1, Exempt: func(netip.Addr) bool { return false }, Refused: new(atomic.Uint64)},
		clients: map[netip.Addr]int{},
	}
	from := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	one, ok := l.admit(from("[2001:db8::1]:1"))
	if !ok {
		t.Fatal("the first connection is refused")
	}
	for text, want := range map[string]bool{"[2001:db8::2]:1": false, "[2001:db8:0:1::1]:1": true, "192.0.2.1:1": true, "[::ffff:192.0.2.2]:1": true} {
		client, ok := l.admit(from(text))
		if ok != want {
			t.Errorf("%s is admitted: %t, want %t", text, ok, want)
		}
		if text == "[::ffff:192.0.2.2]:1" && client != netip.MustParseAddr("192.0.2.2") {
			t.Errorf("%s is %v", text, client)
		}
		if ok {
			l.release(client)
		}
	}
	l.release(one)
	if len(l.clients) != 0 {
		t.Errorf("%d clients are kept", len(l.clients))
	}
}
