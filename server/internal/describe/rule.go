package describe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// Policy describes the classes, plans and rules of a policy made from o. Remote means that the store is on another
// machine, and may fail.
func Policy(p *policy.Policy, o *policy.Options, remote bool) string {
	var b strings.Builder
	for i := range o.Classes {
		fmt.Fprintf(&b, "  class %s: %s\n", o.Classes[i].Name, class(&o.Classes[i]))
	}
	for i := range o.Plans {
		fmt.Fprintf(&b, "  plan %s\n", o.Plans[i].Name)
		for _, name := range slices.Sorted(maps.Keys(o.Plans[i].Limits)) {
			for _, l := range o.Plans[i].Limits[name] {
				write(&b, []line{{name, Limit(l)}})
			}
		}
	}
	for i := range o.PlanFrom {
		fmt.Fprintf(&b, "  %s names the plan of a request\n", o.PlanFrom[i])
	}
	for _, r := range p.Rules() {
		fmt.Fprintf(&b, "  rule %s\n", r.Name)
		write(&b, rule(r, remote))
	}
	switch {
	case o.Default == policy.Deny && o.Shadow:
		b.WriteString("  the default would refuse requests that match no rule; in shadow, they pass\n")
	case o.Default == policy.Deny:
		b.WriteString("  the default refuses requests that match no rule\n")
	}
	if text := encodedSlash(p, o); text != "" {
		b.WriteString("  " + text + "\n")
	}
	return b.String()
}

// line is one thing that a rule does: its aspect, such as "each", and the text about it.
type line struct{ about, text string }

// write writes lines under the heading of a rule.
func write(b *strings.Builder, lines []line) {
	for _, l := range lines {
		b.Write(appendLine(nil, l))
	}
}

// appendLine appends one line.
func appendLine(b []byte, l line) []byte {
	return append(append(appendAspect(b, l.about), l.text...), '\n')
}

// appendAspect appends the beginning of a line. Texts begin below each other.
func appendAspect(b []byte, about string) []byte {
	const column = "           "
	b = append(append(b, "    "...), about...)
	return append(b, column[min(len(about), len(column)-1):]...)
}

// rule describes what a rule of a compiled policy does, line by line.
func rule(r *policy.Rule, remote bool) []line {
	var lines []line
	add := func(about, text string) {
		if text != "" {
			lines = append(lines, line{about, text})
		}
	}
	add("in shadow", shadow(r))
	add("for", Match(&r.Match))
	lines = append(lines, ofDescriptor(r)...)
	switch global := isGlobal(r.Key); {
	case !global && (r.Unlimited || r.Exempt):
	case !global:
		add("each", key(r.Key))
	case !r.Always && !r.Unlimited && !r.Exempt:
		add("all", "share one budget")
	}
	if r.Always {
		add("limits", always)
	}
	for _, l := range r.Limits {
		add("may", named(r, l))
		add("hybrid", ifRemote(Hybrid(l), remote))
	}
	for _, l := range r.Candidate {
		add("tries", named(r, l))
	}
	add("costs", cost(&r.Cost))
	if r.Overdraw {
		add("overdraws", "if a unit is left, and then owes the rest of the cost")
	}
	add("counts", counts(r.CountStatus))
	if r.Floor > 0 {
		add("leaves", count(r.Floor, "unit")+" to others")
	}
	for i := range r.Reserved {
		add("keeps", reserve(&r.Reserved[i]))
	}
	if n := r.OverrideCount(); n > 0 {
		add("except", count(n, "key")+" with limits of their own")
	}
	add("passes", list(len(r.AllowKeys), len(r.AllowIPs), "without limits"))
	add("refuses", list(len(r.DenyKeys), len(r.DenyIPs), "always"))
	if r.Match.Descriptor == nil {
		add("waits", waiting(r))
	}
	add("paces", bandwidth(r.Bandwidth))
	if r.Match.Descriptor == nil || r.WhenLimited.Action != policy.Deny {
		add("otherwise", otherwise(r))
	}
	add("bans", bans(r))
	if remote {
		add("store down", map[sluice.Fallback]string{
			sluice.FallbackAllow: "let pass", sluice.FallbackDeny: "as if limited", sluice.FallbackLocal: "limited in this process, to its share",
		}[r.OnStoreError])
	}
	return lines
}

// Rule describes what a rule of a compiled policy does, as Policy does: pairs of an aspect, such as "each", and the text about it.
func Rule(r *policy.Rule, remote bool) (words [][2]string) {
	for _, l := range rule(r, remote) {
		words = append(words, [2]string{l.about, l.text})
	}
	return words
}

// always describes a rule that limits every request.
const always = "every request, always"

// shadow describes a rule in shadow; empty for other rules.
func shadow(r *policy.Rule) string {
	if r.Shadow {
		return "decided and counted, but not enforced"
	}
	return ""
}

// otherwise describes what a rule does when it limits a request; empty for a rule that never does.
func otherwise(r *policy.Rule) string {
	if len(r.Limits)+len(r.DenyKeys)+len(r.DenyIPs) > 0 || r.Always {
		return limitedAction(&r.WhenLimited)
	}
	return ""
}

// class describes a class of traffic.
func class(c *policy.Class) string {
	text := Match(&c.Match)
	if c.Bypass {
		text += "; they bypass all rules"
	}
	return text
}

// named describes a limit, with its name if the rule has several.
func named(r *policy.Rule, l *sluice.Limit) string {
	if own, ok := strings.CutPrefix(l.Name(), r.Name+"/"); ok {
		return fmt.Sprintf("%s, kept as %s/%s", Limit(l), r.Name, own)
	}
	return Limit(l)
}

// isGlobal reports whether a key is the same for all requests.
func isGlobal(parts []policy.Part) bool {
	return !slices.ContainsFunc(parts, func(p policy.Part) bool { return p.Source != source.Constant })
}

// key describes the clients that limits count for.
func key(parts []policy.Part) string {
	var texts []string
	for i := range parts {
		if parts[i].Source != source.Constant || len(parts) == 1 {
			texts = append(texts, part(&parts[i]))
		}
	}
	return join(texts, " and ")
}

// part describes one part of a key.
func part(p *policy.Part) string {
	noun := map[policy.Source]string{
		policy.FromHeader: "value of header %s", policy.FromCookie: "value of cookie %s", policy.FromQuery: "value of parameter %s",
		source.Path: "path", source.Param: "{%s} of the path", source.Route: "pattern of the path", source.Method: "method",
		source.Host: "host", policy.FromClaim: "claim %s of the token", source.Attribute: "attribute %s",
		source.Descriptor: "value of %s in the descriptor", source.Constant: "constant %s",
	}[p.Source]
	if strings.Contains(noun, "%s") {
		noun = fmt.Sprintf(noun, p.Name)
	}
	if p.Source == source.ClientIP {
		noun = "client address"
		if p.IPv6Prefix < 128 {
			noun += fmt.Sprintf(" (IPv6 by its /%d)", p.IPv6Prefix)
		}
	}
	switch p.OnMissing {
	case policy.MissingSkip:
		noun += " (without one, the rule is skipped)"
	case policy.MissingDeny:
		noun += " (required)"
	}
	switch p.OnRepeated {
	case policy.RepeatedFirst:
		noun += " (of several, the first)"
	case policy.RepeatedLast:
		noun += " (of several, the last)"
	case policy.RepeatedShared:
		noun += " (of several, none)"
	}
	return noun
}

func cost(c *policy.Cost) string {
	upTo := ""
	if c.Max > 0 {
		upTo = fmt.Sprintf(", at most %d", c.Max)
	}
	estimate := fmt.Sprintf("; counted as %d until known", max(1, c.Estimate))
	switch c.Source {
	case policy.CostHeader:
		return fmt.Sprintf("the number in header %s%s; %d without it", c.Header, upTo, max(1, c.Units))
	case policy.CostModel:
		return model(c)
	case policy.CostRequestBytes:
		return "the bytes of the request" + upTo + estimate
	case policy.CostResponseBytes:
		return "the bytes of the response" + upTo + estimate
	case policy.CostResponseHeader:
		return fmt.Sprintf("the number in header %s of the response%s%s", c.Header, upTo, estimate)
	}
	if c.Units > 1 {
		return fmt.Sprintf("%d units each", c.Units)
	}
	return ""
}

// model describes the cost of a request to a language model.
func model(c *policy.Cost) string {
	m := c.Model
	unit := "the tokens"
	if n := len(m.Prices); n > 0 {
		unit = fmt.Sprintf("the price of the tokens, by %s of models,", count(n, "row"))
	}
	text := fmt.Sprintf("%s that the answer reports; until then, a token for each %s of the request, and the most output that it allows, or %d tokens", unit, strings.TrimPrefix(count(m.BytesPerToken, "byte"), "1 "), c.Estimate)
	if m.Format != "" {
		text += "; the form is " + m.Format
	}
	if m.IncludeUsage {
		text += "; streams include their usage"
	}
	if m.Cancel {
		return text + "; the request ends when its client leaves"
	}
	return text
}

func counts(statuses []policy.StatusRange) string {
	var texts []string
	for _, s := range statuses {
		switch {
		case s.From == s.To:
			texts = append(texts, fmt.Sprint(s.From))
		case s.From%100 == 0 && s.To == s.From+99:
			texts = append(texts, fmt.Sprintf("%dxx", s.From/100))
		default:
			texts = append(texts, fmt.Sprintf("%d to %d", s.From, s.To))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "only requests answered with " + or(texts)
}

func reserve(v *policy.Reserve) string {
	share := fmt.Sprintf("the last %d %%", v.Share)
	if v.Share == 0 {
		share = fmt.Sprintf("the last %s", count(v.Units, "unit"))
	}
	return share + " for class " + or(v.For)
}

func list(keys, networks int, how string) string {
	var texts []string
	if keys > 0 {
		texts = append(texts, count(keys, "key"))
	}
	if networks > 0 {
		texts = append(texts, count(networks, "network"))
	}
	if len(texts) == 0 {
		return ""
	}
	return join(texts, " and ") + ", " + how
}

func waiting(r *policy.Rule) string {
	delays := r.MaxWait > 0 || slices.ContainsFunc(r.Limits, (*sluice.Limit).Delays)
	advisory := r.WhenLimited.Action == policy.Mark || r.WhenLimited.Action == policy.Degrade
	switch {
	case r.Always || advisory:
		return ""
	case r.MaxWait == sluice.NoWait:
		return "never"
	case !delays:
		return ""
	}
	text := "in a queue of " + count(r.MaxWaiting, "request")
	if !isGlobal(r.Key) { // with one key for all, the whole queue belongs to that key
		text += fmt.Sprintf(", %d per key", r.MaxWaitingPerKey)
	}
	if r.MaxWait > 0 {
		return fmt.Sprintf("up to %s %s", Duration(r.MaxWait), text)
	}
	return text
}

func bandwidth(b *policy.Bandwidth) string {
	if b == nil {
		return ""
	}
	var texts []string
	if !b.Down.IsZero() {
		texts = append(texts, bytes(b.Down)+" down")
	}
	if !b.Up.IsZero() {
		texts = append(texts, bytes(b.Up)+" up")
	}
	return join(texts, ", ")
}

func limitedAction(r *policy.LimitedAction) string {
	body := ""
	switch {
	case r.Body != "":
		body = " and its own body"
	case r.File != "":
		body = " and the body in " + r.File
	}
	switch {
	case r.Action == policy.Mark:
		return "pass, marked" + headers(" by ", r.RequestHeader)
	case r.Action == policy.Degrade && r.Upstream != "":
		return "pass to " + r.Upstream + " instead" + headers(", with ", r.RequestHeader)
	case r.Action == policy.Degrade && r.Answers():
		return fmt.Sprintf("answer %d%s", cmp.Or(r.Status, 200), body) + headers(", with ", r.Header)
	case r.Action == policy.Degrade:
		return "pass, degraded" + headers(", with ", r.RequestHeader)
	}
	return fmt.Sprintf("refuse with %d%s", cmp.Or(r.Status, 429), body) + headers(", with ", r.Header)
}

// headers names headers; their values may be long.
func headers(before string, h map[string]string) string {
	if len(h) == 0 {
		return ""
	}
	return before + "header " + join(slices.Sorted(maps.Keys(h)), " and ")
}

// bans describes the ban of a rule, and which requests never lead to one.
func bans(r *policy.Rule) string {
	text := ban(r.Ban)
	if r.Ban == nil || r.Ban.After == 0 {
		return text
	}
	var parts []string
	for i := range r.Key {
		p := &r.Key[i]
		if p.OnMissing == policy.MissingShared && (p.Source == policy.FromHeader || p.Source == policy.FromCookie ||
			p.Source == policy.FromQuery || p.Source == policy.FromClaim || p.Source == source.Attribute) {
			parts = append(parts, p.String())
		}
	}
	if len(parts) > 0 {
		text += "; never for requests without " + or(parts)
	}
	return text
}

func ban(b *sluice.Ban) string {
	switch {
	case b == nil:
		return ""
	case b.After == 0:
		return "only by hand"
	}
	text := fmt.Sprintf("for %s after %s within %s", Duration(b.For), count(b.After, "denial"), Duration(cmp.Or(b.Within, b.For)))
	for _, d := range b.Escalate {
		text += ", then for " + Duration(d)
	}
	if b.Forget > 0 {
		text += fmt.Sprintf("; the first one again after %s without a denial", Duration(b.Forget))
	}
	if b.Prolong {
		text += "; attempts restart it"
	}
	return text
}

// count describes a number of things.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
