package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/file/reader"
)

// Descriptor selects descriptors, which gateways such as Envoy send instead of requests: lists of keys and values,
// in the name of a domain. The rules of a domain form a tree: at most one rule applies to a descriptor. Without a
// key, the rule counts by the values that no entry fixes.
type Descriptor struct {
	// Domain is the domain that the gateway names. Required.
	Domain string `yaml:"domain"`
	// Entries are the entries of the descriptor in their order: all of them. An entry is a mapping, or the text of a
	// key. Required.
	Entries []DescriptorEntry `yaml:"entries"`
	// Label is the name of the limit in answers, and the name that other rules can replace. Default: none.
	Label string `yaml:"label"`
	// Replaces lists labels. If the rule applies to one descriptor of a call, rules with these labels do not apply
	// to the others. Default: none.
	Replaces []string `yaml:"replaces"`
	// Quota refuses a call only if all quotas that the call matches deny it. Default: false.
	Quota bool `yaml:"quota"`
	// Debit takes the hits of a descriptor whatever is left and whatever other descriptors of the call decide, as
	// Envoy's rate limit service does. What was not left becomes debt; a leaky bucket cannot owe units. Default:
	// false, so a denied call takes nothing.
	Debit bool `yaml:"debit"`
	// Period is the period that answers name as the limit's, if the rule always limits. Default: 1s.
	Period time.Duration `yaml:"period"`
	// Detailed counts the rule's decisions by the values of all entries too. Default: false.
	Detailed bool `yaml:"detailed"`
	// Metadata holds values of any kind, which the gateway gets with a descriptor that passes. Default: none.
	Metadata reader.Anything `yaml:"metadata"`
}

// Unknown has a remedy for names that Envoy's configuration has.
func (*Descriptor) Unknown(name, text string) string {
	switch name {
	case "key", "value":
		return fmt.Sprintf("write it in an entry: entries: [{%s: …}]", name)
	case "name":
		return `did you mean "label"?`
	case "quota_mode":
		return `did you mean "quota"?`
	case "detailed_metric":
		return `did you mean "detailed"?`
	case "shadow_mode":
		return "give shadow: true to the rule"
	case "descriptors":
		return "write one rule for each descriptor, with all its entries"
	case "rate_limit":
		return "give the rule a limit"
	}
	return ""
}

// DescriptorEntry selects one entry of a descriptor: a mapping, or the text of its key.
type DescriptorEntry struct {
	// Key is the key of the entry. Required.
	Key string `yaml:"key"`
	// Value is the value, in which a star matches any text. Entries with the exact value win over entries with a
	// star, and those win over entries without a value. Default: any value.
	Value string `yaml:"value"`
	// Shared counts all values that the star matches together. Default: false.
	Shared bool `yaml:"shared"`
	// Counted counts the rule's decisions by the value of this entry too. Default: false.
	Counted bool `yaml:"counted"`
}

// Short implements [reader.Shorthand].
func (*DescriptorEntry) Short(list bool) string { return reader.Single("key", list) }

// Unknown has a remedy for names that Envoy's configuration has.
func (*DescriptorEntry) Unknown(name, text string) string {
	switch name {
	case "share_threshold":
		return `did you mean "shared"?`
	case "value_to_metric":
		return `did you mean "counted"?`
	}
	return ""
}

// build makes the match on descriptors.
func (d *Descriptor) build() *descriptors.Pattern {
	if d == nil {
		return nil
	}
	p := &descriptors.Pattern{
		Domain: d.Domain, Label: d.Label, Replaces: d.Replaces, Quota: d.Quota, Debit: d.Debit, Period: d.Period, Detailed: d.Detailed, Metadata: d.Metadata,
	}
	for i := range d.Entries {
		p.Entries = append(p.Entries, descriptors.PatternEntry(d.Entries[i]))
	}
	return p
}

// KeyParts returns how many parts the key of the rule has by default.
func (d *Descriptor) KeyParts() (n int) {
	for i := range d.Entries {
		if e := &d.Entries[i]; !e.Shared && (e.Value == "" || strings.Contains(e.Value, "*")) {
			n++
		}
	}
	return max(n, 1) // one budget for all
}

// checkDescriptor reports settings of a rule for descriptors that have no effect.
func (r *Rule) checkDescriptor(s *reader.Source, path string) {
	d := r.Descriptor
	if d == nil {
		return
	}
	if r.Always || r.Unlimited || r.Exempt {
		s.Idle(path+".descriptor.debit", d.Debit, "is set, and the rule counts nothing", "remove it")
	}
	if !r.Always {
		s.Idle(path+".descriptor.period", d.Period != 0, "is given, and the limit of the rule has a period", "remove it")
	}
	if r.Unlimited || r.Exempt {
		s.Idle(path+".key", len(r.Key) > 0, "is given, and the rule has no limit that could use it", "remove it")
		s.Idle(path+".descriptor.quota", d.Quota, "is set, and the rule has no limit that could deny a call", "remove it")
	}
}

// warnDescriptors warns of settings that gateways which send descriptors do not use.
func (f *File) warnDescriptors(s *reader.Source) {
	for i := range f.Rules {
		r, path := &f.Rules[i], fmt.Sprintf("rules[%d]", i)
		if r.Descriptor == nil {
			continue
		}
		const problem, remedy = "is given, and a gateway that sends descriptors chooses that itself", "remove it, or configure the answer in the gateway"
		w := &r.WhenLimited
		s.Idle(path+".when_limited.status", w.Status != 0, problem, remedy)
		if w.Action == "degrade" {
			s.Idle(path+".when_limited.body", w.Body != "", problem, remedy)
		}
		if w.Action == "degrade" {
			s.Idle(path+".when_limited.file", w.File != "", problem, remedy)
		}
		s.Idle(path+".when_limited.upstream", w.Upstream != "", problem, remedy)
	}
}
