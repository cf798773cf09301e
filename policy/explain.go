package policy

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
)

// Explain says in a few lines why the verdict is what it is: the action, then each
// limit that was met with its numbers. It holds no key.
func (v *Verdict) Explain() string {
	var b strings.Builder
	b.WriteString(v.Action.String())
	v.explainAction(&b)
	if v.Delay > 0 {
		fmt.Fprintf(&b, ", after a delay of %v", v.Delay)
	}
	if v.Class != "" && !v.Bypass {
		fmt.Fprintf(&b, "\n  class %s", v.Class)
	}
	for i := range v.Results {
		b.WriteString("\n  ")
		v.Results[i].explain(&b, v.Err == nil)
	}
	return b.String()
}

func (v *Verdict) explainAction(b *strings.Builder) {
	switch {
	case v.Bypass:
		fmt.Fprintf(b, ": class %s meets no rule", v.Class)
	case v.Reason == sluice.ReasonNoRule:
		b.WriteString(": no rule matches")
	case v.Missing != nil:
		fmt.Fprintf(b, ": rule %s: the key's part %s is missing", v.Rule.Name, v.Missing)
	case v.Err != nil && v.Reason == sluice.ReasonStoreError:
		b.WriteString(": the store could not decide")
		if v.Rule != nil {
			fmt.Fprintf(b, "; rule %s says %s then", v.Rule.Name, v.Rule.OnStoreError)
		}
	case v.Err != nil:
		fmt.Fprintf(b, ": %v", v.Err)
	case v.Action == Deny && v.Rule != nil:
		fmt.Fprintf(b, ": rule %s: %s", v.Rule.Name, v.Reason)
	case v.Degrade != nil:
		fmt.Fprintf(b, ": rule %s", v.Degrade.Name)
	case v.Mark != nil:
		fmt.Fprintf(b, ": rule %s", v.Mark.Name)
	case v.Rule != nil:
		fmt.Fprintf(b, ": the tightest rule is %s", v.Rule.Name)
	}
}

// Explain says in a line what became of the limit, or with no decision what
// would be asked of it. It holds no key.
func (m *LimitResult) Explain() string {
	var b strings.Builder
	m.explain(&b, m.Decision != sluice.Decision{})
	return b.String()
}

func (m *LimitResult) explain(b *strings.Builder, decided bool) {
	r, d := &m.Request, &m.Decision
	always := m.Rule != nil && m.Rule.Always
	if always {
		b.WriteString(m.Rule.Name)
	} else {
		b.WriteString(r.Limit.String())
	}
	switch m.Role {
	case RoleShadow:
		b.WriteString(" (in shadow)")
	case RoleCandidate:
		b.WriteString(" (a candidate)")
	case RoleAdvisory:
		fmt.Fprintf(b, " (to %v)", m.Rule.WhenLimited.Action)
	}
	if m.Override {
		b.WriteString(" (an override)")
	}
	switch {
	case m.Listed == ListDeny && d.Reason != sluice.ReasonListed:
		b.WriteString(": always limited")
		return
	case m.Listed != NotListed:
		fmt.Fprintf(b, ": on the %v list", m.Listed)
		return
	case d.Reason == sluice.ReasonMissingKey:
		b.WriteString(": a part of the key is missing")
		return
	}
	fmt.Fprintf(b, ": cost %d", r.Cost)
	if m.Settles() {
		b.WriteString(", to be settled")
	}
	if r.Floor > 0 {
		fmt.Fprintf(b, ", floor %d", r.Floor)
	}
	switch {
	case !decided:
		b.WriteString(", not decided")
		return
	case d.Allowed:
		b.WriteString(", allowed")
	default:
		fmt.Fprintf(b, ", denied: %s", d.Reason)
	}
	fmt.Fprintf(b, ", %d of %d remain", d.Remaining, d.Limit)
	if d.Delay > 0 {
		fmt.Fprintf(b, ", delay %v", d.Delay)
	}
	if d.RetryAfter > 0 {
		fmt.Fprintf(b, ", retry after %v", d.RetryAfter)
	}
	if d.ResetAfter > 0 {
		fmt.Fprintf(b, ", full again after %v", d.ResetAfter)
	}
	if d.Degraded {
		b.WriteString(", degraded")
	}
	if d.Overflow {
		b.WriteString(", in a budget shared by the keys that found no room")
	}
	if m.Returned {
		b.WriteString(", given back")
	}
}
