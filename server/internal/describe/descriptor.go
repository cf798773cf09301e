package describe

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// descriptor describes which descriptors a rule is for, as in "descriptors of domain edge: tenant, path like /api/*".
func descriptor(d *descriptors.Pattern) string {
	var entries []string
	for i := range d.Entries {
		switch e := &d.Entries[i]; {
		case e.Value == "":
			entries = append(entries, e.Key)
		case strings.Contains(e.Value, "*"):
			entries = append(entries, e.Key+" like "+e.Value)
		default:
			entries = append(entries, e.Key+" "+e.Value)
		}
	}
	return fmt.Sprintf("descriptors of domain %s: %s", d.Domain, strings.Join(entries, ", "))
}

// ofDescriptor describes what is special about a rule that matches descriptors.
func ofDescriptor(r *policy.Rule) (lines []line) {
	d := r.Match.Descriptor
	if d == nil {
		return nil
	}
	switch {
	case r.Unlimited:
		lines = append(lines, line{"may", "everything, without limit"})
	case r.Exempt:
		lines = append(lines, line{"may", "everything, as if no rule matched"})
	}
	if d.Label != "" {
		lines = append(lines, line{"called", d.Label})
	}
	if len(d.Replaces) > 0 {
		lines = append(lines, line{"replaces", "rules called " + or(d.Replaces) + ", in the same call"})
	}
	if d.Quota {
		lines = append(lines, line{"as quota", "a call is refused only if all its quotas deny it"})
	}
	if d.Debit {
		lines = append(lines, line{"counts", "all hits, also the hits of denied calls"})
	}
	for _, l := range r.Limits {
		if !l.TakesDebits() {
			lines = append(lines, line{"refunds", "are refused: its algorithm cannot take units back without the charge"})
			break
		}
	}
	return lines
}

// Descriptor describes how a policy matches a descriptor. The text contains values of the descriptor. Remote means
// that the store is on another machine.
func Descriptor(domain string, t *policy.DescriptorTrace, remote bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a descriptor of domain %s\n", domain)
	if !t.Known {
		b.WriteString("matches no rule: no rule has this domain, so it passes without a limit\n")
		return b.String()
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		by := "the key, whatever the value"
		switch {
		case !s.Matches:
			by = "no rule"
		case strings.Contains(s.Value, "*"):
			by = "the wildcard " + s.Value
		case s.Value != "":
			by = "the value"
		}
		fmt.Fprintf(&b, "  %s=%s matches %s\n", s.Entry.Key, s.Entry.Value, by)
	}
	if t.Rule == nil {
		b.WriteString("matches no rule, so it passes without a limit\n")
		return b.String()
	}
	fmt.Fprintf(&b, "matches\n  rule %s\n", t.Rule.Name)
	var lines []line
	for i := range t.Key {
		if k := &t.Key[i]; k.Part.Source != source.Constant {
			lines = append(lines, line{"key", fmt.Sprintf("%s = %s", k.Part, k.Value)})
		}
	}
	for i := range t.Results {
		lines = append(lines, limitResult(&t.Results[i], Limit(t.Results[i].Request.Limit)))
		if text := ifRemote(Hybrid(t.Results[i].Request.Limit), remote); text != "" && t.Results[i].Listed == policy.NotListed {
			lines = append(lines, line{"hybrid", text})
		}
	}
	if t.Denied == sluice.ReasonListed {
		lines = append(lines, line{"so", "limited at once: " + t.Denied.String()})
	}
	lines = append(lines, ofDescriptor(t.Rule)...)
	if text := shadow(t.Rule); text != "" {
		lines = append(lines, line{"in shadow", text})
	}
	write(&b, lines)
	return b.String()
}
