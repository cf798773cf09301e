package policy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy/internal/keys"
	"github.com/sluicehq/sluice/policy/internal/networks"
	"github.com/sluicehq/sluice/policy/internal/paths"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// newSet makes the requests of a rule's limits, candidates included.
func (c *compiler) newSet(r *rule, limits []*sluice.Limit, from NumbersFrom) *limitSet {
	set := &limitSet{from: from}
	for _, l := range limits {
		set.requests = append(set.requests, sluice.Request{Limit: l, Floor: r.Floor, Ban: r.Ban, Shadow: r.role != RoleEnforced, Debit: r.debits(), Overdraw: r.Overdraw})
		set.kinds = append(set.kinds, limitKind{l.IsConcurrency(), r.role})
	}
	for _, l := range r.Candidate {
		set.requests = append(set.requests, sluice.Request{Limit: l, Floor: r.Floor, Shadow: true, Debit: r.debits() && l.TakesDebits(), Overdraw: r.Overdraw && l.TakesDebits()})
		set.kinds = append(set.kinds, limitKind{l.IsConcurrency(), RoleCandidate})
	}
	if len(r.Reserved) == 0 {
		return set
	}
	for number := noClass; number < len(c.options.Classes); number++ {
		floors := make([]int64, len(set.requests))
		for i := range floors {
			floors[i] = max(r.Floor, c.reserved(r, set.requests[i].Limit, number))
		}
		set.floors = append(set.floors, floors)
	}
	return set
}

// request makes the request to the limit of number i.
func (set *limitSet) request(r *sluice.Request, i int, key sluice.Key, cost int64, class int, peek bool) {
	// Field by field: copying the whole request would take a tenth of the time of a short decision.
	q := &set.requests[i]
	r.Limit, r.Key, r.Cost, r.Floor, r.Ban, r.Shadow, r.Peek, r.Debit = q.Limit, key, cost, set.floor(i, class), q.Ban, q.Shadow, peek, q.Debit
	r.Overdraw = q.Overdraw
	if set.kinds[i].lease && !peek {
		r.Member = rand.Uint64() | 1 // it distinguishes leases, and is not secret
	}
}

// floor returns the floor of a request of a class.
func (set *limitSet) floor(i, class int) int64 {
	if set.floors == nil {
		return set.requests[i].Floor
	}
	return set.floors[class+1][i]
}

// nameLimits gives the limits of a rule the names under which their state is kept. Each name belongs to
// one limit of one rule. Candidates have names of their own.
func (c *compiler) nameLimits(r *Rule, field string, limits []*sluice.Limit) []*sluice.Limit {
	var named []*sluice.Limit
	seen := map[string]bool{}
	for i, l := range limits {
		at := fmt.Sprintf("%s[%d]", field, i)
		if l == nil {
			c.report(at, "", fault{"is nil", "make it with sluice.NewLimit"})
			continue
		}
		if c.single {
			if seen[l.Name()] {
				c.report(at+".Name", l.Name(), fault{"is the name of another limit too", "give each limit its own, because its state is kept under it"})
			}
			seen[l.Name()] = true
			named = append(named, l)
			continue
		}
		own, given := l.Name(), l.IsNamed()
		switch {
		case !given && i == 0 && field == "Limits":
			own = ""
		case !given:
			own = fmt.Sprint(i + 1)
		case !patterns.IsName(own):
			c.report(at+".Name", own, nameFault(own))
		}
		if seen[own] {
			c.report(at+".Name", own, fault{"is the name of another limit of the rule too", "give each limit its own, because its state is kept under it"})
		}
		seen[own] = true
		if field == "Candidate" {
			own = "candidate/" + own
		}
		if l := c.named(r, at, strings.TrimSuffix(r.Name+"/"+own, "/"), l); l != nil {
			named = append(named, l)
		}
	}
	return named
}

// named makes a limit of a rule from the given limit, with the name under which its state is kept.
func (c *compiler) named(r *Rule, at, name string, given *sluice.Limit) *sluice.Limit {
	a := given.Algorithm()
	if _, lease := a.(sluice.Concurrency); lease && r.Cost.Source.estimates() {
		c.report(at, "", fault{
			fmt.Sprintf("is %v, which needs a cost that is known before the request, and the cost is from %v", a, r.Cost.Source),
			"put it in a rule of its own",
		})
	}
	l, err := sluice.NewLimit(name, a)
	if h := given.Hybrid(); h != nil && err == nil {
		l, err = l.WithHybrid(*h)
	}
	var bad *sluice.LimitError
	if errors.As(err, &bad) { // it was a limit before
		c.report(at+"."+bad.Field, "", fault{bad.Problem, bad.Remedy})
		return nil
	}
	if same := c.earlier[identityOf(l)]; same != nil {
		return same
	}
	return l
}

// keyOf reads a key that is given by its values, as in RuleRequest. If the values are not a key of the
// rule, keyOf returns why.
func (r *rule) keyOf(s *scratch, key []string, form paths.Form) (id keys.ID, f fault) {
	s.reset()
	if f := r.readKey(s, key, form); f != (fault{}) {
		return id, f
	}
	ref, missing, _ := s.makeKey(r.parts)
	if missing != nil {
		return id, fault{fmt.Sprintf("lacks %s, and no request has such a key", missing), "give its value"}
	}
	return keys.NewID(ref.Key(s.keys.String())), f
}

// addLists checks the lists of a rule.
func (c *compiler) addLists(r *rule) {
	c.checkNetworks("AllowIPs", r.AllowIPs)
	c.checkNetworks("DenyIPs", r.DenyIPs)
	r.allowIPs, r.denyIPs = networks.New(r.AllowIPs), networks.New(r.DenyIPs)
	c.addList(r, "AllowKeys", r.AllowKeys, ListAllow)
	c.addList(r, "DenyKeys", r.DenyKeys, ListDeny)
	r.hasLists = !r.lists.IsEmpty() || r.allowIPs != nil || r.denyIPs != nil
}

func (c *compiler) addList(r *rule, field string, listed [][]string, list List) {
	s := newScratch()
	defer s.free()
	for i, key := range listed {
		at := fmt.Sprintf("%s[%d]", field, i)
		id, f := r.keyOf(s, key, c.form)
		other, _, _ := r.lists.Get(id)
		switch {
		case f != (fault{}):
			c.report(at, "", f)
			continue
		case other == list:
			c.report(at, "", fault{"is on the list twice", "leave one of them out"})
		case other != NotListed:
			c.report(at, "", fault{"is among the keys to allow too", "leave it out of one of the lists"})
		}
		if !r.lists.Set(id, list, 0) {
			c.report(at, "", fault{fmt.Sprintf("has more than %d bytes", keys.MaxKey), "shorten it"})
		}
	}
}

// listed returns the list that a key, or the address of its client, is on.
func (r *rule) listed(k keys.Ref, b *keys.Buffer, client netip.Addr) List {
	list, _ := r.lists.Find(k, b)
	switch {
	case list == ListDeny || r.denyIPs.Contains(client):
		return ListDeny
	case list == ListAllow || r.allowIPs.Contains(client):
		return ListAllow
	}
	return NotListed
}

// hasOverrides reports whether the rule is given overrides.
func (r *Rule) hasOverrides() bool { return len(r.Overrides) > 0 || r.MoreOverrides != nil }

// OverrideCount returns how many keys of a compiled rule have overrides.
func (r *Rule) OverrideCount() int { return r.overridden }

// addOverrides makes the table of a rule's overrides. Overrides with equal numbers share their limits,
// so that stores keep few limits.
func (c *compiler) addOverrides(r *rule) {
	t := overrideAdder{compiler: c, rule: r, byNumbers: map[string]*limitSet{}, byList: map[**sluice.Limit]*limitSet{}, scratch: newScratch()}
	defer t.scratch.free()
	t.addPlans()
	if e := c.options.Earlier; e != nil && e.byName[r.Name] != nil {
		r.overrides.Reserve(e.byName[r.Name].overridden + 1)
	}
	for i := range r.Overrides {
		t.add(&r.Overrides[i])
	}
	if r.MoreOverrides != nil {
		for o := range r.MoreOverrides {
			t.add(&o)
		}
	}
	r.overridden = r.overrides.Len()
}

// overrideAdder collects the overrides of a rule.
type overrideAdder struct {
	*compiler
	rule      *rule
	n         int
	byNumbers map[string]*limitSet
	byList    map[**sluice.Limit]*limitSet // by the first element of a list of limits
	scratch   *scratch
}

// add adds the next override.
func (t *overrideAdder) add(o *Override) {
	r, at := t.rule, t.n
	t.n++
	id, f := r.keyOf(t.scratch, o.Key, t.form)
	if f == (fault{}) {
		if _, _, taken := r.overrides.Get(id); taken {
			f = fault{"is the key of another override too", "give one for each key"}
		}
	}
	if f != (fault{}) {
		t.report(fmt.Sprintf("Overrides[%d].Key", at), "", f)
		return
	}
	var list **sluice.Limit
	if len(o.Limits) > 0 {
		list = &o.Limits[0]
	}
	set, known := t.byList[list]
	switch {
	case o.Plan != "":
		set = t.planSet(fmt.Sprintf("Overrides[%d]", at), o.Plan, o.Limits, FromFile)
	case !known || list == nil:
		set = t.setOf(fmt.Sprintf("Overrides[%d]", at), o.Limits)
		t.byList[list] = set
	}
	if !r.overrides.Set(id, set, 0) {
		t.report(fmt.Sprintf("Overrides[%d].Key", at), "", fault{fmt.Sprintf("has more than %d bytes", keys.MaxKey), "shorten it"})
	}
}

// setOf returns the limits of an override; nil if they do not fit the rule.
func (t *overrideAdder) setOf(at string, limits []*sluice.Limit) *limitSet {
	r := t.rule
	if len(limits) != len(r.Limits) || slices.Contains(limits, nil) {
		t.report(at+".Limits", "", fault{fmt.Sprintf("are %d, and the rule has %d", len(limits), len(r.Limits)), "give as many, in their order"})
		return nil
	}
	var numbers strings.Builder
	ok := true
	for j, l := range limits {
		own := strings.TrimPrefix(strings.TrimPrefix(r.Limits[j].Name(), r.Name), "/")
		if l.IsNamed() && l.Name() != own {
			t.report(fmt.Sprintf("%s.Limits[%d].Name", at, j), l.Name(), fault{
				fmt.Sprintf("is not the name of the rule's limit, %q", own), "leave it out, because the limits of an override have the names of the rule's",
			})
			ok = false
		}
		numbers.WriteString(numbersOf(l))
		numbers.WriteByte('\n')
	}
	set := t.byNumbers[numbers.String()]
	if set == nil && ok {
		set = t.overriding(r, at, limits)
		t.byNumbers[numbers.String()] = set
	}
	return set
}

// overriding makes the limits of an override.
func (c *compiler) overriding(r *rule, at string, limits []*sluice.Limit) *limitSet {
	var named []*sluice.Limit
	for j, l := range limits {
		if l := c.named(&r.Rule, fmt.Sprintf("%s.Limits[%d]", at, j), r.Limits[j].Name(), l); l != nil {
			named = append(named, l)
		}
	}
	c.checkFloors(r, "the limit of an override or a plan", named)
	if r.Overdraw != r.debits() { // otherwise it is reported already
		c.checkOwing(r, named)
	}
	return c.newSet(r, named, FromFile)
}
