package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// domain is the rules of a domain as a tree, and the limits that came with its descriptors. See docs/adr/0039.
type domain struct {
	descriptorNode
	overrides *overrides
}

// descriptorNode is a position in the tree: the rules whose entries begin alike.
type descriptorNode struct {
	rule  *rule                      // ends here; nil for none
	exact map[Entry]*descriptorNode  // wildcards by their own text too
	wild  map[string][]wildcard      // by key, in the order of the rules
	bare  map[string]*descriptorNode // by key
}

// wildcard is a value with stars, split at them, and what follows.
type wildcard struct {
	texts []string
	next  *descriptorNode
}

// matches reports whether a value is the texts of the wildcard with anything in between.
func (w *wildcard) matches(value string) bool {
	last := len(w.texts) - 1
	value, ok := strings.CutPrefix(value, w.texts[0])
	if !ok || len(value) < len(w.texts[last]) || !strings.HasSuffix(value, w.texts[last]) {
		return false
	}
	value = value[:len(value)-len(w.texts[last])]
	for _, text := range w.texts[1:last] {
		at := strings.Index(value, text)
		if at < 0 {
			return false
		}
		value = value[at+len(text):]
	}
	return true
}

// find returns the rule that a descriptor matches, nil for none.
func (n *descriptorNode) find(entries []Entry) *rule {
	for i := range entries {
		if n = n.follow(&entries[i]); n == nil {
			return nil
		}
	}
	return n.rule
}

// follow returns what an entry leads to, nil if no rule has such an entry.
func (n *descriptorNode) follow(e *Entry) *descriptorNode {
	if next := n.exact[*e]; next != nil {
		return next
	}
	for i, all := 0, n.wild[e.Key]; i < len(all); i++ {
		if all[i].matches(e.Value) {
			return all[i].next
		}
	}
	return n.bare[e.Key]
}

// add returns what an entry of a rule leads to, and makes it if it is new.
func (n *descriptorNode) add(e *DescriptorEntry) *descriptorNode {
	if e.Value == "" {
		next := n.bare[e.Key]
		if next == nil {
			if n.bare == nil {
				n.bare = map[string]*descriptorNode{}
			}
			next = &descriptorNode{}
			n.bare[e.Key] = next
		}
		return next
	}
	at := Entry{e.Key, e.Value}
	next := n.exact[at]
	if next != nil {
		return next
	}
	if n.exact == nil {
		n.exact = map[Entry]*descriptorNode{}
	}
	next = &descriptorNode{}
	n.exact[at] = next
	if strings.Contains(e.Value, "*") {
		if n.wild == nil {
			n.wild = map[string][]wildcard{}
		}
		n.wild[e.Key] = append(n.wild[e.Key], wildcard{strings.Split(e.Value, "*"), next})
	}
	return next
}

// addDomains makes the domains that the options name.
func (c *compiler) addDomains(p *Policy) {
	for i, name := range c.options.Domains {
		if name == "" {
			c.report(fmt.Sprintf("Domains[%d]", i), "", fault{"is empty", "give the name of a domain, or leave it out"})
		}
		c.domain(p, name)
	}
}

// domain returns a domain of the policy, and makes it if it is new.
func (c *compiler) domain(p *Policy, name string) *domain {
	d := p.domains[name]
	if d != nil {
		return d
	}
	d = &domain{overrides: c.overridesOf(name)}
	if p.domains == nil {
		p.domains = map[string]*domain{}
	}
	p.domains[name] = d
	return d
}

// addDescriptor adds a rule to the tree of its domain.
func (c *compiler) addDescriptor(p *Policy, r *rule) {
	n := &c.domain(p, r.Match.Descriptor.Domain).descriptorNode
	for i := range r.Match.Descriptor.Entries {
		n = n.add(&r.Match.Descriptor.Entries[i])
	}
	if n.rule != nil {
		c.report("Match.Descriptor", "", fault{fmt.Sprintf("is the descriptor of rule %q too", n.rule.Name), "leave one of the rules out"})
		return
	}
	n.rule = r
}

// descriptorKey returns the key of a rule that has a descriptor and no key: all values that no entry fixes.
func descriptorKey(d *Descriptor) []Part {
	var parts []Part
	for i := range d.Entries {
		if e := &d.Entries[i]; e.varies() && !e.Shared {
			parts = append(parts, DescriptorValue(e.Key))
		}
	}
	if parts == nil {
		return []Part{Global()}
	}
	return parts
}

// varies reports whether the entry matches several values.
func (e *DescriptorEntry) varies() bool { return e.Value == "" || strings.Contains(e.Value, "*") }

// setEntries finds the entry of each part of a descriptor's key. The second part of a name is the second entry of
// that name that varies.
func (c *compiler) setEntries(r *rule, own bool) {
	r.entries = make([]int, len(r.parts))
	entries, next := r.Match.Descriptor.Entries, map[string]int{}
	for i := range r.parts {
		part := &r.parts[i]
		if part.Source != FromDescriptor {
			if part.Source != FromConstant {
				c.report(fmt.Sprintf("Key[%d]", i), part.String(), fault{"is a part of requests, and the rule matches descriptors", "give descriptor:KEY or a constant"})
			}
			continue
		}
		from := next[part.Name]
		at := slices.IndexFunc(entries[from:], func(e DescriptorEntry) bool {
			return e.Key == part.Name && e.varies() && (own || !e.Shared)
		})
		if at < 0 {
			c.report(fmt.Sprintf("Key[%d]", i), part.String(), fault{"is the value of no entry, or the entry has one value", "name the key of an entry without a value, or with a wildcard"})
			continue
		}
		r.entries[i] = from + at
		next[part.Name] = from + at + 1
	}
}

// checkDescriptor checks a rule that matches descriptors.
func (c *compiler) checkDescriptor(r *rule) {
	d := r.Match.Descriptor
	if d == nil {
		if r.Unlimited || r.Exempt {
			c.report("Unlimited", "", fault{"is for rules that match descriptors: rules that match requests are independent of each other", "leave the rule out, or give the other rules an exception"})
		}
		return
	}
	rest := r.Match
	rest.Descriptor = nil
	if !isZeroMatch(&rest) {
		c.report("Match.Descriptor", "", fault{"is given together with conditions on requests", "leave the other conditions out"})
	}
	if d.Domain == "" {
		c.report("Match.Descriptor.Domain", "", fault{"is missing", "give the domain that the gateway names"})
	}
	if len(d.Entries) == 0 {
		c.report("Match.Descriptor.Entries", "", fault{"are missing", "give one or more"})
	}
	for i := range d.Entries {
		c.checkEntry(fmt.Sprintf("Match.Descriptor.Entries[%d].", i), &d.Entries[i])
	}
	for i, label := range d.Replaces {
		switch at := fmt.Sprintf("Match.Descriptor.Replaces[%d]", i); label {
		case "":
			c.report(at, "", fault{"is empty", "give the label of another rule, or leave it out"})
		case d.Label:
			c.report(at, label, fault{"is the rule's own label", "give the label of another rule"})
		}
	}
	if d.Period < 0 || d.Period%time.Microsecond != 0 {
		c.report("Match.Descriptor.Period", "", is(d.Period, "give 1 µs or more, in whole microseconds"))
	}
	c.checkUnlimited(r)
	c.checkDebit(r)
	c.checkUnused(r)
}

// debits reports whether a rule takes the cost of its descriptors whatever is left.
func (r *Rule) debits() bool { return r.Match.Descriptor != nil && r.Match.Descriptor.Debit }

// checkDebit reports limits that cannot owe units.
func (c *compiler) checkDebit(r *rule) {
	if !r.debits() {
		return
	}
	sets := [][]*sluice.Limit{r.Limits}
	for i := range r.Overrides {
		sets = append(sets, r.Overrides[i].Limits)
	}
	for _, l := range slices.Concat(sets...) {
		if l != nil && !l.TakesDebits() {
			c.report("Match.Descriptor.Debit", "", fault{fmt.Sprintf("is set, and %v cannot owe units", l.Algorithm()), "leave it out, or give another algorithm"})
			return
		}
	}
}

func (c *compiler) checkEntry(at string, e *DescriptorEntry) {
	switch {
	case e.Key == "":
		c.report(at+"Key", "", fault{"is missing", "give the key of the entry"})
	case strings.Contains(e.Key, "*"):
		c.report(at+"Key", e.Key, fault{"has a star", "give the star in the value: keys are compared exactly"})
	case e.Shared && !strings.Contains(e.Value, "*"):
		c.report(at+"Shared", "", fault{"is set, and the value has no star", "leave it out, or give a value such as \"files*\""})
	}
}

func (c *compiler) checkUnlimited(r *rule) {
	field := "Unlimited"
	if r.Exempt {
		field = "Exempt"
	}
	switch {
	case !r.Unlimited && !r.Exempt:
	case r.Unlimited && r.Exempt:
		c.report(field, "", fault{"is set, and Unlimited too", "leave one of them out"})
	case r.Always || len(r.Limits)+len(r.Candidate)+len(r.Overrides) > 0:
		c.report(field, "", fault{"is set, so limits, candidates and overrides have no effect", "leave it out, or them"})
	}
}

// checkUnused reports fields that have no effect on descriptors.
func (c *compiler) checkUnused(r *rule) {
	const remedy = "leave it out"
	if r.MaxWait > 0 {
		c.report("MaxWait", "", fault{"is given, and a gateway that sends descriptors does not wait", remedy})
	}
	if r.Bandwidth != nil {
		c.report("Bandwidth", "", fault{"is given, and descriptors have no bytes to pace", remedy})
	}
	if len(r.CountStatus) > 0 {
		c.report("CountStatus", "", fault{"is given, and descriptors have no response", remedy})
	}
	if len(r.Reserved) > 0 {
		c.report("Reserved", "", fault{"is given, and descriptors have no class", "give a floor to the rules of less important descriptors"})
	}
	for field, networks := range map[string]int{"AllowIPs": len(r.AllowIPs), "DenyIPs": len(r.DenyIPs)} {
		if networks > 0 {
			c.report(field, "", fault{"is given, and descriptors have no client address", "list keys instead"})
		}
	}
	if r.Cost.Source > CostConstant || r.Cost.Header != "" || r.Cost.Function != nil {
		c.report("Cost", "", fault{"is not constant, and the cost of a descriptor comes with it", "give the same cost for each hit, or leave it out"})
	}
	c.checkLeases(r)
}

// checkLeases reports limits that grant leases.
func (c *compiler) checkLeases(r *rule) {
	for field, limits := range map[string][]*sluice.Limit{"Limits": r.Limits, "Candidate": r.Candidate} {
		for i, l := range limits {
			if l != nil && l.IsConcurrency() {
				c.report(fmt.Sprintf("%s[%d]", field, i), "", fault{"grants leases, and nobody releases the lease of a descriptor", "give another algorithm"})
			}
		}
	}
}

// isZeroMatch reports whether a match has no conditions.
func isZeroMatch(m *Match) bool {
	return len(m.Paths)+len(m.Methods)+len(m.Hosts)+len(m.Headers)+len(m.Cookies)+len(m.Queries)+len(m.Attributes)+
		len(m.ClientIPs)+len(m.Classes)+len(m.If)+len(m.Unless) == 0 && m.Marked == nil && m.Pressure == 0 && m.PressureOf == ""
}
