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
	switch {
	case v.Reason == sluice.ReasonNoRule:
		b.WriteString(": no rule matches")
	case v.Missing != nil:
		fmt.Fprintf(&b, ": rule %s: the key's part %s is missing", v.Rule.Name, v.Missing)
	case v.Err != nil && v.Reason == sluice.ReasonStoreError:
		b.WriteString(": the store could not decide")
		if v.Rule != nil {
			fmt.Fprintf(&b, "; rule %s says %s then", v.Rule.Name, v.Rule.OnStoreError)
		}
	case v.Err != nil:
		fmt.Fprintf(&b, ": %v", v.Err)
	case v.Action == Deny:
		fmt.Fprintf(&b, ": rule %s: %s", v.Rule.Name, v.Tightest.Reason)
	case v.Rule != nil:
		fmt.Fprintf(&b, ": the tightest rule is %s", v.Rule.Name)
	}
	if v.Delay > 0 {
		fmt.Fprintf(&b, ", after a delay of %v", v.Delay)
	}
	for i := range v.Met {
		b.WriteString("\n  ")
		v.Met[i].explain(&b, v.Err == nil)
	}
	return b.String()
}

func (m *Met) explain(b *strings.Builder, decided bool) {
	r, d := &m.Request, &m.Decision
	b.WriteString(r.Limit.String())
	if r.Shadow {
		b.WriteString(" (in shadow)")
	}
	fmt.Fprintf(b, ": cost %d", r.Cost)
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
}
