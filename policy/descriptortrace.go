package policy

import "github.com/sluicehq/sluice"

// DescriptorTrace explains how a policy matches a descriptor, before it calls a store. Unlike a verdict it contains
// values of the descriptor, keys included.
type DescriptorTrace struct {
	// Known says that the domain exists.
	Known bool
	// Steps are the entries, up to the first entry that no rule has.
	Steps []DescriptorStep
	// Rule is the rule that applies; nil for none. If all entries match and Rule is nil, no rule ends there.
	Rule *Rule
	// Key holds the parts of the key, with their values.
	Key []KeyValue
	// Results are the requests to the store about the rule's limits, undecided.
	Results []LimitResult
	// Denied is the reason why the rule limits the descriptor whatever its limits decide.
	Denied sluice.Reason
}

// DescriptorStep is how one entry of a descriptor matches.
type DescriptorStep struct {
	Entry Entry
	// Matches says that some rule has the entry.
	Matches bool
	// Value is the value of the rules' entry: the exact value, a wildcard, or empty if every value matches.
	Value string
}

// TraceDescriptor explains how the policy matches a descriptor of a domain. It calls no store.
func (p *Policy) TraceDescriptor(domain string, entries []Entry) DescriptorTrace {
	d := p.domains[domain]
	t := DescriptorTrace{Known: d != nil}
	if d == nil {
		return t
	}
	n := &d.descriptorNode
	for i := range entries {
		step := DescriptorStep{Entry: entries[i]}
		next := n.follow(&entries[i])
		for at, node := range n.exact {
			if node == next && at.Key == entries[i].Key {
				step.Value = at.Value
			}
		}
		step.Matches = next != nil
		t.Steps = append(t.Steps, step)
		if n = next; n == nil {
			return t
		}
	}
	if n.rule == nil {
		return t
	}
	t.Rule = &n.rule.Rule
	s := newScratch()
	defer s.free()
	s.listsToo, s.peek = true, true
	q := []DescriptorRequest{{Entries: entries, Cost: 1}}
	v := DescriptorVerdict{Descriptors: make([]DescriptorResult, 1)}
	c := call{scratch: s, domain: d, requests: q, v: &v}
	c.match()
	for i := range n.rule.parts {
		part := n.rule.parts[i]
		value := part.Name
		if part.Source == FromDescriptor {
			value = entries[n.rule.entries[i]].Value
		}
		t.Key = append(t.Key, KeyValue{Part: part, Value: value, OK: true})
	}
	if len(s.selected) > 0 {
		s.fill(false)
		t.Results = s.results()
		t.Denied = s.selected[0].reason
	}
	return t
}
