// Package share divides the room of a table among its callers.
package share

import "net/netip"

// Room is the room of a table that many callers share. A caller takes at most as much as is free, so it never takes the
// room of all others. It is not safe for concurrent use: the lock of the table is its lock too.
type Room struct {
	most, taken int
	of          map[string]int
}

// NewRoom returns room for a number of rows, or of bytes.
func NewRoom(most int) *Room { return &Room{most: most, of: map[string]int{}} }

// IsFree reports whether a caller may take more.
func (r *Room) IsFree(caller string) bool { return r.of[caller] < r.most-r.taken }

// Take takes room for a caller. A negative number gives it back.
func (r *Room) Take(caller string, n int) {
	r.taken += n
	if r.of[caller] += n; r.of[caller] == 0 {
		delete(r.of, caller)
	}
}

// Taken returns how much all callers have taken, and how many callers have taken some.
func (r *Room) Taken() (n, callers int) { return r.taken, len(r.of) }

// Peer returns the caller at a remote address with a port: its address, and for IPv6 its network of 64 bits. Callers at
// a Unix socket are one caller.
func Peer(remote string) string {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	addr := peer.Addr().Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(64) // it is not longer than the address
		addr = network.Addr()
	}
	return addr.String()
}
