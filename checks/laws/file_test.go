package laws

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policyfile"
)

// A fileRule is a rule of a file, in the words of the file. The naive evaluator reads nothing else.
type fileRule struct {
	name          string
	path, method  string    // a pattern of the path, and a method; empty for all
	header        [2]string // a header and its value, "*" for any, "" for none
	unless        string    // a pattern of the path of exceptions
	network       string    // of the client, empty for all
	key           string    // client_ip, header:X-Key, query:k, both or global
	missing       string    // on_missing of the key
	repeated      string    // on_repeated of the key
	limits        []fileLimit
	costs, shadow bool
	listed        string           // a key that is always refused
	exempt        string           // a key that always passes
	other         int64            // the count of the first limit for the key "b"; 0 without such an override
	named         string           // the plan that the override of the key "b" names; empty without such an override
	plans         map[string]int64 // the count of the first limit, by plan
}

// filePlans are the plans of a file.
type filePlans struct {
	deny  bool // unknown plans
	names []string
}

// yaml writes the plans, with the numbers that rules have by them.
func (p *filePlans) yaml(rules []*fileRule) string {
	var plans []string
	for _, name := range p.names {
		var of []string
		for _, r := range rules {
			if count, has := r.plans[name]; has {
				numbers := append([]string{fmt.Sprintf("{rate: %d/%ds}", count, r.limits[0].seconds)}, slices.Repeat([]string{"{}"}, len(r.limits)-1)...)
				of = append(of, fmt.Sprintf("%s: [%s]", r.name, strings.Join(numbers, ", ")))
			}
		}
		plans = append(plans, fmt.Sprintf("%s: {%s}", name, strings.Join(of, ", ")))
	}
	text := "plans: {" + strings.Join(plans, ", ") + "}\nplan_from: \"header:X-Tier\"\n"
	if p.deny {
		text += "unknown_plan: deny\n"
	}
	return text
}

// of returns the plan of a request; known is false for a plan that is not there, and for several. Only gateways at 192.0.2.1 name plans.
func (p *filePlans) of(q *fileRequest) (name string, known bool) {
	values := q.values("X-Tier")
	switch {
	case q.clientKey() != "192.0.2.1" || len(values) == 0:
		return "", true
	case len(values) > 1:
		return "", false
	}
	return values[0], values[0] == "" || slices.Contains(p.names, values[0])
}

// count returns how many units the first limit of a rule has for a key, or that the rule limits the request whatever is left.
func (r *fileRule) count(q *fileRequest, key string, plans *filePlans) (count int64, limited bool) {
	plan, known := plans.of(q)
	switch {
	case r.other != 0 && key == "b":
		return r.other, false
	case r.named != "" && key == "b":
		plan = r.named
	case !known:
		return r.limits[0].count, plans.deny && len(r.plans) > 0
	}
	if count, has := r.plans[plan]; has {
		return count, false
	}
	return r.limits[0].count, false
}

// A fileLimit is a limit of a rule.
type fileLimit struct {
	algorithm      string
	count, seconds int64
	used           map[string]*usage
}

// usage is what a key has used of a limit, as one would note it on paper: the units, their times in microseconds, and the count of the
// limit then.
type usage struct {
	times  []int64
	units  []int64
	counts []int64
}

// free returns how many units of a limit of count are left at a time.
func (l *fileLimit) free(key string, count, now int64) int64 {
	u := l.used[key]
	if u == nil {
		return count
	}
	period := l.seconds * 1e6
	sum := int64(0)
	switch l.algorithm {
	case "sliding_log":
		for i, at := range u.times {
			if now < at+period {
				sum += u.units[i]
			}
		}
	case "fixed_window":
		for i, at := range u.times {
			if at/period == now/period {
				sum += u.units[i]
			}
		}
	case "token_bucket":
		// missing is what the bucket lacks, in units times the period. It fills by the count of the latest charge a period, or
		// by the count that a request has now, whichever is higher.
		missing, last, before := int64(0), int64(0), int64(0)
		for i, at := range u.times {
			missing = max(0, missing-(at-last)*max(before, u.counts[i])) + u.units[i]*period
			last, before = at, u.counts[i]
		}
		missing = max(0, missing-(now-last)*max(before, count))
		sum = (missing + period - 1) / period
	}
	return count - sum
}

// take notes units, which were taken while the limit had a count.
func (l *fileLimit) take(key string, units, count, now int64) {
	if l.used[key] == nil {
		l.used[key] = &usage{}
	}
	u := l.used[key]
	u.times, u.units, u.counts = append(u.times, now), append(u.units, units), append(u.counts, count)
}

// yaml writes the rule.
func (r *fileRule) yaml() string {
	var match, rule []string
	if r.path != "" {
		match = append(match, "path: "+r.path)
	}
	if r.method != "" {
		match = append(match, "method: "+r.method)
	}
	if r.header[0] != "" {
		match = append(match, fmt.Sprintf("header: {%s: %q}", r.header[0], r.header[1]))
	}
	if r.network != "" {
		match = append(match, "client_ip: "+r.network)
	}
	if r.unless != "" {
		match = append(match, fmt.Sprintf("unless: {path: %s}", r.unless))
	}
	rule = append(rule, "name: "+r.name)
	if match != nil {
		rule = append(rule, "match: {"+strings.Join(match, ", ")+"}")
	}
	part := fmt.Sprintf("{part: '%s', on_missing: %s, on_repeated: %s}", r.key, r.missing, r.repeated)
	switch r.key {
	case "both":
		part = fmt.Sprintf("[client_ip, {part: 'header:X-Key', on_missing: %s, on_repeated: %s}]", r.missing, r.repeated)
	case "client_ip", "global":
		part = r.key
	}
	rule = append(rule, "key: "+part)
	var limits []string
	for i, l := range r.limits {
		limits = append(limits, fmt.Sprintf("{name: %s-%d, algorithm: %s, rate: %d/%ds}", r.name, i, l.algorithm, l.count, l.seconds))
	}
	rule = append(rule, "limits: ["+strings.Join(limits, ", ")+"]")
	if r.costs {
		rule = append(rule, "cost: {header: X-Cost, units: 2, max: 5}")
	}
	if r.shadow {
		rule = append(rule, "shadow: true")
	}
	if r.listed != "" {
		rule = append(rule, fmt.Sprintf("deny: {key: [%s]}", r.listed))
	}
	if r.exempt != "" {
		rule = append(rule, fmt.Sprintf("allow: {key: [%s]}", r.exempt))
	}
	if r.named != "" {
		rule = append(rule, fmt.Sprintf("overrides: [{key: [b], plan: %s}]", r.named))
	}
	if r.other != 0 {
		others := []string{fmt.Sprintf("{rate: %d/%ds}", r.other, r.limits[0].seconds)}
		for _, l := range r.limits[1:] {
			others = append(others, fmt.Sprintf("{rate: %d/%ds}", l.count, l.seconds))
		}
		rule = append(rule, "overrides: [{key: [b], limits: ["+strings.Join(others, ", ")+"]}]")
	}
	return "  - {" + strings.Join(rule, ", ") + "}\n"
}

// fileRequest is a request as a service reads it.
type fileRequest struct {
	method, path, client string
	headers              [][2]string
	parameters           []string // values of k
}

// values returns the values of a header.
func (q *fileRequest) values(name string) (all []string) {
	for _, h := range q.headers {
		if h[0] == name {
			all = append(all, h[1])
		}
	}
	return all
}

// isUnder reports whether a path has a pattern: segment by segment, /** for a folder and all below it.
func isUnder(path, pattern string) bool {
	folder, all := strings.CutSuffix(pattern, "/**")
	if all && (path == folder || strings.HasPrefix(path, folder+"/")) {
		return true
	}
	have, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	if all || len(have) != len(want) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && (want[i] != "*" || have[i] == "") {
			return false
		}
	}
	return true
}

// applies reports whether a rule is about a request.
func (r *fileRule) applies(q *fileRequest) bool {
	if r.path != "" && !isUnder(q.path, r.path) || r.unless != "" && isUnder(q.path, r.unless) {
		return false
	}
	if r.method != "" && r.method != q.method && (r.method != "GET" || q.method != "HEAD") {
		return false
	}
	if r.network != "" && !netip.MustParsePrefix(r.network).Contains(netip.MustParseAddr(q.client).Unmap()) {
		return false
	}
	if r.header[0] != "" {
		values := q.values(r.header[0])
		values = slices.DeleteFunc(values, func(v string) bool { return v == "" })
		if r.header[1] == "*" {
			return len(values) > 0
		}
		return slices.Contains(values, r.header[1])
	}
	return true
}

// clientKey returns the key of a client: its address, or the first 64 bits of an IPv6 address.
func (q *fileRequest) clientKey() string {
	a := netip.MustParseAddr(q.client).Unmap()
	if a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64)
	return p.String()
}

// keyOf returns the key of a request, or why there is none: "skip" or "deny".
func (r *fileRule) keyOf(q *fileRequest) (key, without string) {
	var values []string
	switch r.key {
	case "global":
		return "", ""
	case "client_ip":
		return q.clientKey(), ""
	case "query:k":
		values = q.parameters
	default:
		values = q.values("X-Key")
	}
	prefix := ""
	if r.key == "both" {
		prefix = q.clientKey() + " "
	}
	missing := func() (string, string) {
		if r.missing == "share" {
			return prefix + "<missing>", ""
		}
		return "", r.missing
	}
	if len(values) > 1 {
		switch r.repeated {
		case "first":
			values = values[:1]
		case "last":
			values = values[len(values)-1:]
		case "share":
			return prefix + "<missing>", ""
		default:
			return "", "deny"
		}
	}
	if len(values) == 0 || values[0] == "" {
		return missing()
	}
	return prefix + "=" + values[0], ""
}

// cost returns what a request costs.
func (r *fileRule) cost(q *fileRequest) int64 {
	if !r.costs {
		return 1
	}
	switch values := q.values("X-Cost"); len(values) {
	case 0:
		return 2
	default:
		n := int64(0)
		_, _ = fmt.Sscan(values[0], &n)
		return min(n, 5)
	}
}

// decideByWords decides a request by the words of the documentation, and charges the limits. closed says that a request passes
// only if a rule applies to it.
func decideByWords(rules []*fileRule, plans *filePlans, closed bool, q *fileRequest, now int64) bool {
	type charge struct {
		l     *fileLimit
		key   string
		units int64
		count int64
	}
	allowed := !closed || slices.ContainsFunc(rules, func(r *fileRule) bool {
		_, without := r.keyOf(q)
		return r.applies(q) && without != "skip"
	})
	var enforced []charge
	var shadows [][]charge
	for _, r := range rules {
		if !r.applies(q) {
			continue
		}
		key, without := r.keyOf(q)
		if without != "" {
			allowed = allowed && (without == "skip" || r.shadow)
			continue
		}
		value := strings.TrimPrefix(key, "=")
		if r.exempt != "" && value == r.exempt {
			continue
		}
		if r.listed != "" && value == r.listed {
			allowed = allowed && r.shadow
			continue
		}
		first, limited := r.count(q, value, plans)
		if limited {
			allowed = allowed && r.shadow
			continue
		}
		fits := true
		var charges []charge
		for i := range r.limits {
			l, count := &r.limits[i], r.limits[i].count
			if i == 0 {
				count = first
			}
			fits = fits && l.free(key, count, now) >= r.cost(q)
			charges = append(charges, charge{l, key, r.cost(q), count})
		}
		switch {
		case !r.shadow:
			allowed = allowed && fits
			enforced = append(enforced, charges...)
		case fits:
			shadows = append(shadows, charges)
		}
	}
	if allowed {
		shadows = append(shadows, enforced)
	}
	for _, charges := range shadows {
		for _, c := range charges {
			c.l.take(c.key, c.units, c.count, now)
		}
	}
	return allowed
}

// drawRule draws a rule, with numbers by some plans.
func drawRule(t *rapid.T, name string, plans []string) *fileRule {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	r := &fileRule{
		name: name, path: pick("path", "", "/a", "/a/*", "/a/**", "/b/**"), method: pick("method", "", "", "GET", "POST"),
		network: pick("network", "", "", "", "192.0.2.0/25"), key: pick("key", "client_ip", "header:X-Key", "query:k", "both", "global"),
		missing: pick("on_missing", "share", "skip", "deny"), repeated: pick("on_repeated", "deny", "first", "last", "share"),
		costs: rapid.Bool().Draw(t, "costs"), shadow: rapid.IntRange(0, 4).Draw(t, "shadow") == 0,
	}
	if rapid.IntRange(0, 3).Draw(t, "header") == 0 {
		r.header = [2]string{"X-Plan", pick("plan", "gold", "*")}
	}
	if r.path == "/a/**" && rapid.Bool().Draw(t, "unless") {
		r.unless = "/a/open/**"
	}
	most := 2
	if r.shadow {
		most = 1
	}
	for range rapid.IntRange(1, most).Draw(t, "limits") {
		r.limits = append(r.limits, fileLimit{
			algorithm: pick("algorithm", "token_bucket", "fixed_window", "sliding_log"),
			count:     rapid.Int64Range(2, 8).Draw(t, "count"), seconds: rapid.Int64Range(1, 20).Draw(t, "seconds"), used: map[string]*usage{},
		})
	}
	if strings.Contains(r.key, ":") {
		switch rapid.IntRange(0, 4).Draw(t, "exceptions") {
		case 0:
			r.listed = "a"
		case 1:
			r.exempt = "a"
		case 2:
			r.other = rapid.Int64Range(2, 12).Draw(t, "other")
		case 3:
			if len(plans) > 0 {
				r.named = pick("named", plans...)
			}
		}
	}
	r.plans = map[string]int64{}
	for _, plan := range plans {
		if rapid.Bool().Draw(t, "planned") {
			r.plans[plan] = rapid.Int64Range(2, 12).Draw(t, "count of "+plan)
		}
	}
	return r
}

// drawRequest draws a request, and how it is written.
func drawRequest(t *rapid.T) (*fileRequest, *http.Request) {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	q := &fileRequest{
		method: pick("method", "GET", "POST", "HEAD"), path: pick("path", "/a", "/a/x", "/a/x/y", "/a/open", "/a/open/x", "/b", "/ab", "/c"),
		client: pick("client", "192.0.2.1", "192.0.2.200", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:192.0.2.1"),
	}
	target := q.path
	if rapid.Bool().Draw(t, "escaped") {
		target = strings.Replace(target, "a", "%61", 1)
	}
	var query []string
	for range rapid.IntRange(0, 2).Draw(t, "parameters") {
		value := pick("parameter", "a", "b", "c", "")
		q.parameters = append(q.parameters, value)
		query = append(query, pick("name", "k=", "%6b=")+pick("written", value, strings.ReplaceAll(value, "b", "%62")))
	}
	if query != nil {
		target += "?" + strings.Join(query, "&")
	}
	for range rapid.IntRange(0, 2).Draw(t, "keys") {
		q.headers = append(q.headers, [2]string{"X-Key", pick("key", "a", "b", "c", "")})
	}
	if rapid.Bool().Draw(t, "has plan") {
		q.headers = append(q.headers, [2]string{"X-Plan", pick("plan", "gold", "silver", "staff")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "tiers") / 2 * rapid.IntRange(1, 2).Draw(t, "lines") {
		q.headers = append(q.headers, [2]string{"X-Tier", pick("tier", "gold", "trial", "Gold", "none", "")})
	}
	if rapid.Bool().Draw(t, "has cost") {
		q.headers = append(q.headers, [2]string{"X-Cost", pick("cost", "1", "3", "9")})
	}
	r := httptest.NewRequest(q.method, target, nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(q.client), 1234).String()
	for _, h := range q.headers {
		r.Header.Add(h[0], h[1])
	}
	return q, r
}

// TestFilesDecideAsTheirWords plays random requests through the middleware with the rules of a random file. An evaluator
// that has only the words of docs/policies.md, and keeps each unit with its time, decides the same.
func TestFilesDecideAsTheirWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rules []*fileRule
		text := "version: 1\nclasses: [{name: staff, match: {header: {X-Plan: staff}}, bypass: true}]\n"
		closed := rapid.IntRange(0, 3).Draw(t, "default") == 0
		if closed {
			text += "default: deny\n"
		}
		var plans filePlans
		if rapid.Bool().Draw(t, "plans") {
			plans.names, plans.deny = []string{"gold", "trial"}, rapid.Bool().Draw(t, "deny unknown plans")
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
			rules = append(rules, drawRule(t, fmt.Sprintf("r%d", i), plans.names))
		}
		if plans.names != nil {
			text += plans.yaml(rules)
		}
		text += "rules:\n"
		for _, r := range rules {
			text += r.yaml()
		}
		file, err := policyfile.Parse("rules.yaml", []byte(text))
		if err != nil {
			t.Fatalf("the file is refused: %v\n%s", err, text)
		}
		p, err := file.Policy()
		if err != nil {
			t.Fatalf("the file has no policy: %v\n%s", err, text)
		}
		now := int64(1_700_000_000_000_000)
		store, err := memory.New(memory.Options{Clock: func() int64 { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		gateway, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
		if err != nil {
			t.Fatal(err)
		}
		decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store, TrustPlan: gateway.TrustsPeer})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(decider, httplimit.Options{MaxDelay: sluice.NoWait})
		if err != nil {
			t.Fatal(err)
		}
		served := false
		h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
		var log strings.Builder
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			now += max(0, rapid.Int64Range(0, 6).Draw(t, "half seconds")*500_000+rapid.Int64Range(-1, 1).Draw(t, "more")) // the ends of periods too
			q, r := drawRequest(t)
			served = false
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := slices.Contains(q.values("X-Plan"), "staff") || decideByWords(rules, &plans, closed, q, now)
			fmt.Fprintf(&log, "%d: %s %s from %s, %v: %d\n", now, q.method, r.URL, q.client, q.headers, w.Code)
			if served != want {
				t.Fatalf("the request passes: %v, want %v\n%s%s%s", served, want, text, log.String(), w.Body)
			}
		}
	})
}
