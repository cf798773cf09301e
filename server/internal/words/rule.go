package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Line is one thing that a rule does: what it is about, and what is said of it.
type Line struct{ About, Text string }

// Rule says what a rule of a compiled policy does, line by line. remote says that the store is
// one that may fail.
func Rule(r *policy.Rule, remote bool) []Line {
	lines := []Line{{"for", Match(&r.Match)}}
	add := func(about, text string) {
		if text != "" {
			lines = append(lines, Line{about, text})
		}
	}
	if r.Shadow {
		lines = append([]Line{{"in shadow", "decided and counted, and nothing of it enforced"}}, lines...)
	}
	switch global := isGlobal(r.Key); {
	case !global:
		add("each", key(r.Key))
	case !r.Always:
		add("all", "in one budget in common")
	}
	if r.Always {
		add("limits", "each of them, always")
	}
	for _, l := range r.Limits {
		add("may", named(r, l))
	}
	for _, l := range r.Candidate {
		add("tries", named(r, l))
	}
	add("costs", cost(&r.Cost))
	add("counts", counts(r.CountStatus))
	if r.Floor > 0 {
		add("leaves", fmt.Sprintf("%d units of it to others", r.Floor))
	}
	for i := range r.Reserved {
		add("keeps", reserve(&r.Reserved[i]))
	}
	if n := len(r.Overrides); n > 0 {
		add("except", fmt.Sprintf("%s with numbers of their own", count(n, "key")))
	}
	add("passes", list(len(r.AllowKeys), len(r.AllowIPs)))
	add("refuses", list(len(r.DenyKeys), len(r.DenyIPs)))
	add("waits", waiting(r))
	add("paces", bandwidth(r.Bandwidth))
	if len(r.Limits)+len(r.DenyKeys)+len(r.DenyIPs) > 0 || r.Always {
		add("otherwise", response(&r.WhenLimited))
	}
	add("bans", ban(r.Ban))
	if remote {
		add("store down", map[policy.Fallback]string{
			policy.FallbackAllow: "let pass", policy.FallbackDeny: "as if limited", policy.FallbackLocal: "limited in this process, to its share",
		}[r.OnStoreError])
	}
	return lines
}

// Class says what a class of traffic is.
func Class(c *policy.Class) string {
	text := Match(&c.Match)
	if c.Bypass {
		text += "; they meet no rule"
	}
	return text
}

// named says a limit, with its name if the rule has several.
func named(r *policy.Rule, l *sluice.Limit) string {
	if own, ok := strings.CutPrefix(l.Name(), r.Name+"/"); ok {
		return fmt.Sprintf("%s, kept as %s/%s", Limit(l), r.Name, own)
	}
	return Limit(l)
}

// isGlobal reports whether a key is the same for all requests.
func isGlobal(parts []policy.Part) bool {
	return !slices.ContainsFunc(parts, func(p policy.Part) bool { return p.Source != policy.FromConstant })
}

// key says whom limits count for.
func key(parts []policy.Part) string {
	var texts []string
	for i := range parts {
		if parts[i].Source != policy.FromConstant || len(parts) == 1 {
			texts = append(texts, Part(&parts[i]))
		}
	}
	return join(texts, " and ")
}

// Part says one part of a key.
func Part(p *policy.Part) string {
	noun := map[policy.Source]string{
		policy.FromHeader: "value of header %s", policy.FromCookie: "value of cookie %s", policy.FromQuery: "value of parameter %s",
		policy.FromPath: "path", policy.FromParam: "{%s} of the path", policy.FromRoute: "pattern of the path", policy.FromMethod: "method",
		policy.FromHost: "host", policy.FromClaim: "claim %s of the token", policy.FromAttribute: "attribute %s", policy.FromConstant: "constant %s",
	}[p.Source]
	if strings.Contains(noun, "%s") {
		noun = fmt.Sprintf(noun, p.Name)
	}
	if p.Source == policy.FromClientIP {
		noun = "client address"
		if p.IPv6Prefix < 128 {
			noun += fmt.Sprintf(" (IPv6 by its /%d)", p.IPv6Prefix)
		}
	}
	switch p.OnMissing {
	case policy.MissingSkip:
		noun += ", or not at all without one"
	case policy.MissingDeny:
		noun += ", which must be there"
	}
	return noun
}

func cost(c *policy.Cost) string {
	upTo := ""
	if c.Max > 0 {
		upTo = fmt.Sprintf(", %d at most", c.Max)
	}
	estimate := fmt.Sprintf("; %d until that is known", max(1, c.Estimate))
	switch c.Source {
	case policy.CostHeader:
		return fmt.Sprintf("what header %s says%s, %d without it", c.Header, upTo, max(1, c.Units))
	case policy.CostRequestBytes:
		return "the bytes of the request" + upTo + estimate
	case policy.CostResponseBytes:
		return "the bytes of the response" + upTo + estimate
	case policy.CostResponseHeader:
		return fmt.Sprintf("what header %s of the response says%s%s", c.Header, upTo, estimate)
	}
	if c.Units > 1 {
		return fmt.Sprintf("%d units each", c.Units)
	}
	return ""
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
	return "only those that are answered with " + or(texts)
}

func reserve(v *policy.Reserve) string {
	share := fmt.Sprintf("the last %d %%", v.Share)
	if v.Share == 0 {
		share = fmt.Sprintf("the last %s", count(int(v.Units), "unit"))
	}
	return share + " for class " + or(v.For)
}

func list(keys, networks int) string {
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
	return join(texts, " and ") + " without asking"
}

func waiting(r *policy.Rule) string {
	delays := r.MaxWait > 0
	for _, l := range r.Limits {
		switch a := l.Algorithm().(type) {
		case sluice.LeakyBucket:
			delays = delays || a.Queue > 0
		case sluice.Concurrency:
			delays = delays || a.Queue > 0
		case sluice.TokenBucket:
			delays = delays || a.WarmUp > 0
		}
	}
	advisory := r.WhenLimited.Action == policy.Mark || r.WhenLimited.Action == policy.Degrade
	switch {
	case r.Always || advisory:
		return ""
	case r.MaxWait == sluice.NoWait:
		return "never"
	case !delays:
		return ""
	}
	text := fmt.Sprintf("for its turn; %d requests at once", r.MaxWaiting)
	if !isGlobal(r.Key) { // of one key for all, the queue is all its own
		text += fmt.Sprintf(", %d of one key", r.MaxWaitingPerKey)
	}
	if r.MaxWait > 0 {
		return fmt.Sprintf("up to %s %s", duration(r.MaxWait), text)
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

func response(r *policy.LimitedAction) string {
	body := ""
	switch {
	case r.Body != "":
		body = " and a body of its own"
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

func ban(b *sluice.Ban) string {
	switch {
	case b == nil:
		return ""
	case b.After == 0:
		return "by hand alone"
	}
	text := fmt.Sprintf("for %s after %s within %s", duration(b.For), count(int(b.After), "denial"), duration(cmp.Or(b.Within, b.For)))
	for _, d := range b.Escalate {
		text += ", then for " + duration(d)
	}
	if b.Forget > 0 {
		text += fmt.Sprintf("; begins anew after %s of quiet", duration(b.Forget))
	}
	if b.Prolong {
		text += "; attempts begin it anew"
	}
	return text
}

// count says how many there are of something.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
