package share_test

import (
	"testing"

	"github.com/sluicehq/sluice/internal/share"
)

// A caller takes half of the room, the next one half of the rest, and what is given back is free again.
func TestRoomIsShared(t *testing.T) {
	r := share.NewRoom(100)
	fill := func(caller string) (taken int) {
		for r.IsFree(caller) {
			r.Take(caller, 1)
			taken++
		}
		return taken
	}
	for _, want := range []struct {
		caller string
		taken  int
	}{{"a", 50}, {"b", 25}, {"a", 0}, {"c", 13}} {
		if got := fill(want.caller); got != want.taken {
			t.Errorf("%s takes %d, want %d", want.caller, got, want.taken)
		}
	}
	r.Take("a", -50)
	if got := fill("d"); got != 31 {
		t.Errorf("after a has given all back, d takes %d, want 31", got)
	}
	if n, callers := r.Taken(); n != 69 || callers != 3 {
		t.Errorf("%d callers have taken %d, want 3 and 69", callers, n)
	}
}

// A caller is its address, and the network of 64 bits of an IPv6 address.
func TestCallersAreAddressesOrNetworks(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8::1]:1": "2001:db8::", "[2001:db8::2%eth0]:1": "2001:db8::",
		"@": "", "": "",
	} {
		if got := share.Peer(remote); got != want {
			t.Errorf("%s is %q, want %q", remote, got, want)
		}
	}
}
