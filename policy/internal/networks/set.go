package networks

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/sluicehq/sluice/internal/faults"
)

// Set holds networks as disjoint ranges of addresses, sorted so that a binary search finds them.
type Set struct {
	v4 []range4
	v6 []range6
}

type range4 struct{ first, last uint32 }

type range6 struct{ first, last address6 }

// address6 is an IPv6 address as a number.
type address6 struct{ hi, lo uint64 }

func (a address6) compare(b address6) int {
	if c := cmp.Compare(a.hi, b.hi); c != 0 {
		return c
	}
	return cmp.Compare(a.lo, b.lo)
}

func number4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func number6(a netip.Addr) address6 {
	b := a.As16()
	return address6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// Check returns a network as it is compared: an IPv4 network mapped to IPv6
// becomes the IPv4 network. It returns a fault if p is not a network.
func Check(p netip.Prefix) (clean netip.Prefix, f faults.Fault) {
	switch {
	case !p.IsValid():
		return p, faults.New("is not a network", "give one such as 10.0.0.0/8")
	case p.Addr().Is4In6() && p.Bits() < 96:
		return p, faults.New("is a network of IPv4 addresses mapped to IPv6, and is wider than all of them", "give 0.0.0.0/0 or ::/0")
	case p.Addr().Is4In6():
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), f
	}
	return p, f
}

// New makes a set of networks that were checked.
func New(networks []netip.Prefix) *Set {
	if len(networks) == 0 {
		return nil
	}
	s := &Set{}
	for _, p := range networks {
		p, _ = Check(p)
		p = p.Masked()
		switch bits := p.Bits(); {
		case bits < 0: // reported
		case p.Addr().Is4():
			first := number4(p.Addr())
			s.v4 = append(s.v4, range4{first, first | uint32(uint64(1)<<(32-bits)-1)})
		default:
			first := number6(p.Addr())
			last := address6{first.hi | ^uint64(0)>>min(bits, 64), first.lo}
			if bits <= 64 {
				last.lo = ^uint64(0)
			} else {
				last.lo |= ^uint64(0) >> (bits - 64)
			}
			s.v6 = append(s.v6, range6{first, last})
		}
	}
	slices.SortFunc(s.v4, func(a, b range4) int { return cmp.Compare(a.first, b.first) })
	slices.SortFunc(s.v6, func(a, b range6) int { return a.first.compare(b.first) })
	// If two networks overlap, one contains the other: a network that ends before the end of
	// the network before it is within that network.
	n := 0
	for i, r := range s.v4 {
		if i == 0 || r.first > s.v4[n-1].last {
			s.v4[n] = r
			n++
		} else {
			s.v4[n-1].last = max(s.v4[n-1].last, r.last)
		}
	}
	s.v4 = slices.Clip(s.v4[:n])
	n = 0
	for i, r := range s.v6 {
		if i == 0 || r.first.compare(s.v6[n-1].last) > 0 {
			s.v6[n] = r
			n++
		} else if r.last.compare(s.v6[n-1].last) > 0 {
			s.v6[n-1].last = r.last
		}
	}
	s.v6 = slices.Clip(s.v6[:n])
	return s
}

// Contains reports whether an address is in one of the networks. A nil set holds none.
func (s *Set) Contains(a netip.Addr) bool {
	if s == nil || !a.IsValid() {
		return false
	}
	if a = a.Unmap(); a.Is4() {
		x := number4(a)
		i, found := slices.BinarySearchFunc(s.v4, x, func(r range4, x uint32) int { return cmp.Compare(r.first, x) })
		return found || i > 0 && x <= s.v4[i-1].last
	}
	x := number6(a)
	i, found := slices.BinarySearchFunc(s.v6, x, func(r range6, x address6) int { return r.first.compare(x) })
	return found || i > 0 && x.compare(s.v6[i-1].last) <= 0
}
