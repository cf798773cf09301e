package policy

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// keyID identifies a key among the keys of a rule.
type keyID struct {
	text  string
	parts int
}

// keyTable has what a rule defines for single keys: overrides or lists.
type keyTable[V any] map[keyID]V

// find returns the value for a key, without making a string of the key.
func (t keyTable[V]) find(k keyRef, buffer []byte) (v V, found bool) {
	if b, text := k.bytes(buffer); len(b) == 0 {
		v, found = t[keyID{text, k.parts}]
	} else {
		v, found = t[keyID{string(b), k.parts}]
	}
	return v, found
}

// keyOf reads a key that is given by its values, as in RuleRequest. If the values are not a key of the
// rule, keyOf returns why.
func (r *rule) keyOf(s *scratch, key []string, paths Paths) (id keyID, f fault) {
	s.reset()
	if f := r.readKey(s, key, paths); f != (fault{}) {
		return id, f
	}
	ref, missing := s.makeKey(r.parts)
	if missing != nil {
		return id, fault{fmt.Sprintf("lacks %s, and no request has such a key", missing), "give its value"}
	}
	k := ref.key(string(s.key))
	return keyID{k.Text(), k.Len()}, f
}

// addLists checks the lists of a rule.
func (c *compiler) addLists(r *rule) {
	c.checkNetworks("AllowIPs", r.AllowIPs)
	c.checkNetworks("DenyIPs", r.DenyIPs)
	r.allowIPs, r.denyIPs = newIPSet(r.AllowIPs), newIPSet(r.DenyIPs)
	r.lists = make(keyTable[List], len(r.AllowKeys)+len(r.DenyKeys))
	c.addList(r, "AllowKeys", r.AllowKeys, ListAllow)
	c.addList(r, "DenyKeys", r.DenyKeys, ListDeny)
	r.hasLists = len(r.lists) > 0 || r.allowIPs != nil || r.denyIPs != nil
}

func (c *compiler) addList(r *rule, field string, keys [][]string, list List) {
	for i, key := range keys {
		at := fmt.Sprintf("%s[%d]", field, i)
		id, f := r.keyOf(&c.scratch, key, c.options.Paths)
		switch other := r.lists[id]; {
		case f != (fault{}):
			c.report(at, "", f)
			continue
		case other == list:
			c.report(at, "", fault{"is on the list twice", "leave one of them out"})
		case other != NotListed:
			c.report(at, "", fault{"is among the keys to allow too", "leave it out of one of the lists"})
		}
		r.lists[id] = list
	}
}

// checkNetworks checks a list of networks.
func (c *compiler) checkNetworks(field string, networks []netip.Prefix) {
	for i, p := range networks {
		if _, f := checkNetwork(p); f != (fault{}) {
			c.report(fmt.Sprintf("%s[%d]", field, i), p.String(), f)
		}
	}
}

// listed returns the list that a key, or the address of its client, is on.
func (r *rule) listed(s *scratch, k keyRef) List {
	list, _ := r.lists.find(k, s.key)
	switch {
	case list == ListDeny || r.denyIPs.contains(s.client):
		return ListDeny
	case list == ListAllow || r.allowIPs.contains(s.client):
		return ListAllow
	}
	return NotListed
}

// ipSet holds networks as disjoint ranges of addresses, sorted so that a binary search finds them.
type ipSet struct {
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

// checkNetwork returns a network as it is compared: an IPv4 network mapped to IPv6
// becomes the IPv4 network. It returns a fault if p is not a network.
func checkNetwork(p netip.Prefix) (clean netip.Prefix, f fault) {
	switch {
	case !p.IsValid():
		return p, fault{"is not a network", "give one such as 10.0.0.0/8"}
	case p.Addr().Is4In6() && p.Bits() < 96:
		return p, fault{"is a network of IPv4 addresses mapped to IPv6, and is wider than all of them", "give 0.0.0.0/0 or ::/0"}
	case p.Addr().Is4In6():
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), f
	}
	return p, f
}

// newIPSet makes a set of networks that were checked.
func newIPSet(networks []netip.Prefix) *ipSet {
	if len(networks) == 0 {
		return nil
	}
	s := &ipSet{}
	for _, p := range networks {
		p, _ = checkNetwork(p)
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

// contains reports whether an address is in one of the networks. A nil set holds none.
func (s *ipSet) contains(a netip.Addr) bool {
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
