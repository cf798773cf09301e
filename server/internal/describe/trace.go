package describe

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// Trace describes which rules a request matches, with keys and limits, and which condition of each other rule
// fails. The text contains values of the request. Remote means that the store is on another machine.
func Trace(t *policy.Trace, remote bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s of %s from %s", t.Method, t.Path, t.Host, t.ClientIP)
	if t.Class != "" {
		fmt.Fprintf(&b, ", class %s", t.Class)
	}
	b.WriteByte('\n')
	if len(t.Variants) > 0 {
		fmt.Fprintf(&b, "other services may read the path as %s\n", strings.Join(t.Variants, " or "))
	}
	switch {
	case t.Refused != nil:
		b.WriteString("refused with status 400: " + strings.TrimPrefix(t.Refused.Error(), "policy: ") + "\n")
		return b.String()
	case t.Bypass:
		b.WriteString("matches no rule: its class bypasses all rules\n")
		return b.String()
	case t.Stray != "":
		fmt.Fprintf(&b, "the default refuses it, because %s matches no rule; otherwise it matches\n", t.Stray)
	case t.Matches():
		b.WriteString("matches\n")
	case t.Default == policy.Deny:
		b.WriteString("matches no rule; the default refuses it\n")
	default:
		b.WriteString("matches no rule; the default lets it pass\n")
	}
	heading := "does not match\n"
	var rest strings.Builder
	for i := range t.Rules {
		r := &t.Rules[i]
		if r.Unmet != nil {
			fmt.Fprintf(&rest, "%s  rule %s: %s\n", heading, r.Rule.Name, unmet(r.Unmet))
			heading = ""
			continue
		}
		fmt.Fprintf(&b, "  rule %s\n", r.Rule.Name)
		if r.Path != t.Path {
			write(&b, []line{{"as", r.Path}})
		}
		write(&b, tracedRule(r, remote))
	}
	return b.String() + rest.String()
}

// tracedRule describes a rule that the request matches.
func tracedRule(r *policy.TracedRule, remote bool) []line {
	var lines []line
	var missing *policy.Part
	for i := range r.Key {
		k := &r.Key[i]
		switch {
		case k.Repeated && k.Part.OnRepeated == policy.RepeatedShared:
			lines = append(lines, line{"key", k.Part.String() + " has several values; such requests share the budget of requests without it"})
		case k.Repeated:
			missing = &k.Part
			lines = append(lines, line{"key", k.Part.String() + " has several values, or an unclear one, and exactly one is required: " + k.Part.OnceRemedy()})
		case !k.OK && k.Part.OnMissing == policy.MissingDeny:
			missing = &k.Part
			lines = append(lines, line{"key", k.Part.String() + " is missing, and required"})
		case !k.OK:
			lines = append(lines, line{"key", k.Part.String() + " is missing; requests without it share one budget"})
		case k.Part.Source != source.Constant:
			lines = append(lines, line{"key", fmt.Sprintf("%s = %s", k.Part, k.Value)})
		}
	}
	if r.Plan != nil {
		lines = append(lines, line{"plan", plan(r.Plan)})
	}
	listed := false
	for i := range r.Results {
		lines = append(lines, limitResult(&r.Results[i], Limit(r.Results[i].Request.Limit)))
		if text := ifRemote(Hybrid(r.Results[i].Request.Limit), remote); text != "" && r.Results[i].Listed == policy.NotListed {
			lines = append(lines, line{"hybrid", text})
		}
		listed = r.Results[i].Listed != policy.NotListed
	}
	if r.Denied != sluice.ReasonNone && !r.Rule.Always && !listed {
		lines = append(lines, line{"so", "limited at once: " + r.Denied.String()})
	}
	return append(lines, consequences(r.Rule, r.Denied, missing)...)
}

// plan describes what names the plan of a request.
func plan(k *policy.KeyValue) string {
	switch part := k.Part.String(); {
	case k.OK:
		return part + " = " + k.Value
	case k.Repeated:
		return part + " has several values, or an unclear one, so the plan is unknown"
	case k.Value != "":
		return fmt.Sprintf("%s = %q, which is not a plan", part, k.Value)
	default:
		return part + " is missing, or does not count because no trusted proxy sent it"
	}
}

// consequences describes what a rule does with a request besides counting it. Reason and missing
// are why it limits the request, if that is known.
func consequences(r *policy.Rule, reason sluice.Reason, missing *policy.Part) []line {
	var lines []line
	add := func(about, text string) {
		if text != "" {
			lines = append(lines, line{about, text})
		}
	}
	add("in shadow", shadow(r))
	add("paces", bandwidth(r.Bandwidth))
	answered := *r
	if answer := &answered.WhenLimited; answer.Action == policy.Deny && answer.Status == 0 {
		answer.Status = denial.Status(&policy.Verdict{Action: policy.Deny, Reason: reason, Missing: missing})
	}
	add("otherwise", otherwise(&answered))
	return lines
}

// limitResult describes one limit of a rule that the request matches, and what the request takes of it. The argument
// text describes the limit itself.
func limitResult(m *policy.LimitResult, text string) line {
	switch {
	case m.Listed == policy.ListDeny && m.Decision.Reason != sluice.ReasonListed:
		return line{"limits", always}
	case m.Listed != policy.NotListed && m.From == policy.FromCall:
		return line{"listed", "by an override by call; no limit applies"}
	case m.Listed != policy.NotListed:
		return line{"listed", fmt.Sprintf("on the %v list; no limit applies", m.Listed)}
	}
	about := "may"
	if m.Role == policy.RoleCandidate {
		about = "tries"
	}
	switch {
	case m.From == policy.FromCall:
		text += ", by an override by call"
	case m.Override:
		text += ", by an override"
	}
	if name := m.Plan(); name != "" {
		text += ", by plan " + name
	}
	if m.Request.Cost != 1 {
		text += fmt.Sprintf(", cost %d", m.Request.Cost)
	}
	if m.Settles() {
		text += ", to be settled"
	}
	if m.Request.Floor > 0 {
		text += fmt.Sprintf(", leaving %d", m.Request.Floor)
	}
	return line{about, text + ", kept as " + m.Request.Limit.Name()}
}

// nouns are the words for values of a request.
var nouns = map[condition.Kind]string{
	condition.Header: "header", condition.Cookie: "cookie", condition.Query: "parameter", condition.Attribute: "attribute",
}

// unmet describes the condition that a request fails, as in "the method GET is not POST".
func unmet(u *condition.Unmet) string {
	switch u.Condition {
	case condition.Bypass:
		return fmt.Sprintf("class %s bypasses all rules", u.Name)
	case condition.Descriptor:
		return "it matches descriptors of domain " + u.Name + ", and no requests"
	case condition.Host:
		return fmt.Sprintf("the host %q is %s", u.Value, among(u.OneOf))
	case condition.Path:
		return fmt.Sprintf("the path %s is %s", u.Value, among(u.OneOf))
	case condition.Method:
		return fmt.Sprintf("the method %s is %s", u.Value, among(u.OneOf))
	case condition.Class:
		if u.Missing {
			return "the request has no class"
		}
		return fmt.Sprintf("the class %s is not the rule's", u.Value)
	case condition.Marked:
		if u.Name != "" {
			return fmt.Sprintf("the request is not marked, unless rule %s marks it", u.Name)
		}
		return "the request is not marked"
	case condition.Unmarked:
		return "the request is marked"
	case condition.ClientIP:
		if u.Missing {
			return "the client's address is unknown"
		}
		return fmt.Sprintf("the client %s is in none of the networks", u.Value)
	case condition.If:
		if u.Name != "" {
			return "the condition is false: " + u.Name
		}
		return "a condition is false"
	case condition.Pressure:
		if u.Missing {
			return fmt.Sprintf("the pressure on rule %s is unknown, and must be %v or more", u.Name, u.AtLeast)
		}
		return fmt.Sprintf("the pressure on rule %s is %v, and must be %v or more", u.Name, u.Pressure, u.AtLeast)
	case condition.Unless:
		if u.Exceptions == 1 {
			return "its exception matches"
		}
		return fmt.Sprintf("exception %d of %d matches", u.Exception, u.Exceptions)
	case condition.Key:
		return fmt.Sprintf("the key's part %s is missing, and the rule skips such requests", u.Name)
	default:
		return unmetValue(u)
	}
}

// unmetValue describes a condition on a header or another named value.
func unmetValue(u *condition.Unmet) string {
	noun := nouns[u.Condition]
	wanted := quotedValues(u.OneOf, u.Prefixes)
	switch {
	case u.Missing:
		return fmt.Sprintf("the %s %s is missing", noun, u.Name)
	case len(wanted) == 0:
		return fmt.Sprintf("the %s %s is present", noun, u.Name)
	}
	return fmt.Sprintf("the %s %s is %q, %s", noun, u.Name, u.Value, among(wanted))
}

// among describes that a value is none of some texts.
func among(texts []string) string {
	switch {
	case len(texts) == 1:
		return "not " + texts[0]
	case len(texts) > mostListed:
		return fmt.Sprintf("none of %s and %d more", strings.Join(texts[:mostListed], ", "), len(texts)-mostListed)
	}
	return "none of " + strings.Join(texts, ", ")
}
