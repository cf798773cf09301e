package policy

import (
	"fmt"
	"net/netip"
)

// keyID identifies a key of a rule among its keys.
type keyID struct {
	text  string
	parts int
}

// keyTable finds what a rule says of single keys.
type keyTable[V any] map[keyID]V

// find returns what is said of a key, without making a string of it.
func (t keyTable[V]) find(k keyRef, buffer []byte) (v V, found bool) {
	if b, text := k.bytes(buffer); len(b) == 0 {
		v, found = t[keyID{text, k.parts}]
	} else {
		v, found = t[keyID{string(b), k.parts}]
	}
	return v, found
}

// keyOf reads a key that is given by its values, as in RuleRequest. If it is
// not one of the rule, it returns why.
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
