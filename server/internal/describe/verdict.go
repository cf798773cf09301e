package describe

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Verdict describes a verdict: what happens to the request and why. Then it describes each rule
// that the request matched, with its limits, in the words of Trace. The text contains no key.
func Verdict(v *policy.Verdict) string {
	var b strings.Builder
	b.WriteString(v.String() + "\n")
	if v.Class != "" && !v.Bypass {
		fmt.Fprintf(&b, "  class %s\n", v.Class)
	}
	for i := 0; i < len(v.Results); {
		r := v.Results[i].Rule
		fmt.Fprintf(&b, "  rule %s\n", r.Name)
		var lines []line
		for ; i < len(v.Results) && v.Results[i].Rule == r; i++ {
			m := &v.Results[i]
			lines = append(lines, limitResult(m))
			if m.Listed == policy.NotListed {
				lines = append(lines, line{"so", decision(m, v.Err == nil)})
			}
		}
		reason := sluice.ReasonNone
		if r == v.Rule && !v.Allowed() {
			reason = v.Reason
		}
		write(&b, append(lines, consequences(r, reason, nil)...))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// decision describes what the store decided about a limit.
func decision(m *policy.LimitResult, decided bool) string {
	d := &m.Decision
	switch d.Reason {
	case sluice.ReasonMissingKey:
		return "a part of the key is missing"
	case sluice.ReasonRepeatedKey:
		return "a part of the key has several values"
	}
	if !decided {
		return "not decided"
	}
	text := "allowed"
	if !d.Allowed {
		text = "denied: " + d.Reason.String()
	}
	text += fmt.Sprintf("; %d of %d remain", d.Remaining, d.Limit)
	if d.Delay > 0 {
		text += "; delay " + duration(d.Delay)
	}
	if d.RetryAfter > 0 {
		text += "; retry after " + duration(d.RetryAfter)
	}
	if d.ResetAfter > 0 {
		text += "; full again after " + duration(d.ResetAfter)
	}
	if d.Degraded {
		text += "; decided by a fallback"
	}
	if d.Overflow {
		text += "; in a budget shared by keys that found no room"
	}
	if m.Returned {
		text += "; given back"
	}
	return text
}
