package policy_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// described returns a rule of the domain "d" that admits n units per minute. Entries are written as key=value.
func described(name string, n int64, entries ...string) policy.Rule {
	d := &descriptors.Pattern{Domain: "d"}
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		shared := strings.HasSuffix(value, "!")
		d.Entries = append(d.Entries, descriptors.PatternEntry{Key: key, Value: strings.TrimSuffix(value, "!"), Shared: shared})
	}
	r := policy.Rule{Name: name, Match: policy.Match{Descriptor: d}}
	if n > 0 {
		r.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerMinute(n)})}
	}
	return r
}

// entries reads the entries of a descriptor, written as key=value.
func entries(texts ...string) []descriptors.Entry {
	var all []descriptors.Entry
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		all = append(all, descriptors.Entry{Key: key, Value: value})
	}
	return all
}

func hits(n int64, texts ...string) descriptors.Request {
	return descriptors.Request{Entries: entries(texts...), Cost: n}
}

// describing returns a decider over a store in memory with its own clock, which begins ten seconds into a minute.
func describing(t *testing.T, o policy.Options) (d *policy.Decider, now *time.Time) {
	t.Helper()
	at := time.Unix(1_800_000_010, 0)
	clock := func() int64 {
		moment := at // which steps change
		return moment.UnixMicro()
	}
	store, err := memory.New(memory.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if d, err = policy.NewDecider(mustPolicy(t, o), store); err != nil {
		t.Fatal(err)
	}
	return d, &at
}

// statuses returns the codes of a verdict and what remains, such as "no OK/4 OVER/0": the call, then its descriptors.
func statuses(v *policy.DescriptorVerdict) string {
	texts := []string{"ok"}
	if !v.Allowed() {
		texts[0] = "no"
	}
	for i := range v.Descriptors {
		d := &v.Descriptors[i]
		text := "OK"
		if !d.Allowed {
			text = "OVER"
		}
		switch {
		case d.Unlimited:
			text += "/unlimited"
		case d.Rule == nil || d.Replaced:
		default:
			text += fmt.Sprintf("/%d", d.Remaining())
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

// A descriptor matches the most specific rule, and only that one.
func TestDescriptorsMatch(t *testing.T) {
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
		described("exact", 1, "a=x"),
		described("wild", 1, "a=x*"),
		described("wilder", 1, "a=*z"),
		described("middle", 1, "a=b*c*d"),
		described("bare", 1, "a"),
		described("deep", 1, "a=x", "b"),
		described("deeper", 1, "k", "k=v"),
		described("late", 1, "a=xx", "b"),
		described("literal", 1, "a=y*"),
	}})
	d, err := policy.NewDecider(p, &stub{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ descriptor, rule string }{
		{"a=x", "exact"},
		{"a=xy", "wild"},
		{"a=xz", "wild"}, // the first wildcard in the order of the rules
		{"a=z", "wilder"},
		{"a=yz", "wilder"}, // although a=y* matches too
		{"a=y*", "literal"},
		{"a=bcd", "middle"},
		{"a=b1c2d", "middle"},
		{"a=bd", "bare"},
		{"a=bdc", "bare"},
		{"a=", "bare"},
		{"a", "bare"},
		{"b=x", ""},
		{"", ""},
		{"a=x b=1", "deep"},
		{"a=x b=1 c=2", ""}, // deeper than any rule
		{"a=xx", ""},        // its own entry leads to no rule of this depth
		{"a=xx b=1", "late"},
		{"a=xy b=1", ""}, // a choice is final: the wildcard leads nowhere
		{"a=q b=1", ""},
		{"k=1", ""},
		{"k=1 k=v", "deeper"},
		{"k=1 k=w", ""},
	} {
		v := d.DecideDescriptors(t.Context(), "d", []descriptors.Request{hits(1, strings.Fields(c.descriptor)...)})
		name := ""
		if r := v.Descriptors[0].Rule; r != nil {
			name = r.Name
		}
		if name != c.rule || !v.Allowed() || !v.Known {
			t.Errorf("%q matches %q, want %q: %s", c.descriptor, name, c.rule, v.String())
		}
	}
	if v := d.DecideDescriptors(t.Context(), "e", []descriptors.Request{hits(1, "a=x")}); v.Known || !v.Allowed() || v.Descriptors[0].Rule != nil || v.Reason != sluice.ReasonNoRule {
		t.Errorf("an unknown domain: %s", v.String())
	}
	if v := d.Decide(t.Context(), &policy.Attributes{Method: "GET", Path: "/a"}); v.Reason != sluice.ReasonNoRule {
		t.Errorf("a request: %s", v.String())
	}
}

// TestDescriptorsDecide decides calls in steps, one of which sets the clock back.
func TestDescriptorsDecide(t *testing.T) {
	quota := func(r policy.Rule) policy.Rule { r.Match.Descriptor.Quota = true; return r }
	shadow := func(r policy.Rule) policy.Rule { r.Shadow = true; return r }
	rules := []policy.Rule{
		described("user", 5, "user"), described("path", 3, "path=/a*!"), described("each", 2, "each=*"),
		shadow(described("shadow", 1, "shadow")),
		quota(described("q1", 1, "q1")), quota(described("q2", 2, "q2")),
		{Name: "free", Unlimited: true, Match: described("", 0, "user=free").Match},
		{Name: "exempt", Exempt: true, Match: described("", 0, "user=exempt").Match},
		{Name: "zero", Always: true, Match: described("", 0, "user=zero").Match},
		{Name: "listed", DenyKeys: [][]string{{"bad"}}, Match: described("", 0, "listed").Match, Limits: described("", 9, "x").Limits},
		{Name: "replacing", Match: described("", 0, "vip").Match, Limits: described("", 9, "x").Limits},
		{Name: "labelled", Match: described("", 0, "ip").Match, Limits: described("", 1, "x").Limits},
	}
	rules[10].Match.Descriptor.Replaces = []string{"per-ip"}
	rules[11].Match.Descriptor.Label = "per-ip"
	look := func(texts ...string) descriptors.Request {
		return descriptors.Request{Entries: entries(texts...), Look: true}
	}
	refund := func(n int64, texts ...string) descriptors.Request {
		return descriptors.Request{Entries: entries(texts...), Cost: n, Refund: true}
	}
	override := func(rate sluice.Rate, texts ...string) descriptors.Request {
		return descriptors.Request{Entries: entries(texts...), Limit: &rate}
	}
	all := func(q ...descriptors.Request) []descriptors.Request { return q }
	d, now := describing(t, policy.Options{Rules: rules})
	for i, c := range []struct {
		pass time.Duration
		call []descriptors.Request
		want string
	}{
		{0, all(hits(2, "user=a")), "ok OK/3"},
		{0, all(hits(0, "user=a")), "ok OK/2"}, // no cost is one
		{0, all(look("user=a")), "ok OK/2"},
		{0, all(hits(3, "user=a")), "no OVER/2"},
		{0, all(hits(2, "user=b"), hits(3, "user=a")), "no OK/5 OVER/2"}, // b is not charged
		{0, all(look("user=b")), "ok OK/5"},
		{0, all(hits(2, "user=b"), hits(2, "user=b")), "ok OK/3 OK/1"}, // the same key adds up
		{0, all(hits(1, "user=b"), hits(1, "user=b")), "no OK/1 OVER/0"},
		{0, all(hits(1, "path=/ab"), hits(1, "path=/ac")), "ok OK/2 OK/1"}, // one counter
		{0, all(hits(1, "each=ab"), hits(1, "each=ac")), "ok OK/1 OK/1"},   // a counter each
		{0, all(hits(1, "shadow=s")), "ok OK/0"},
		{0, all(hits(1, "shadow=s"), hits(1, "user=c")), "ok OK/0 OK/4"},
		{0, all(hits(1, "q1=x"), hits(1, "q2=x")), "ok OK/0 OK/1"},
		{0, all(hits(1, "q1=x"), hits(1, "q2=x")), "ok OVER/0 OK/0"},                           // one quota is left
		{0, all(hits(1, "q1=x"), hits(1, "user=c"), hits(1, "q2=x")), "no OVER/0 OK/3 OVER/0"}, // no quota is left
		{0, all(look("user=c")), "ok OK/4"},                                                    // and c got its unit back
		{0, all(hits(1, "q2=y"), hits(9, "user=c")), "no OK/1 OVER/4"},
		{0, all(look("q2=y")), "ok OK/2"}, // the quota got its unit back
		{0, all(hits(1, "user=free"), hits(1, "user=exempt")), "ok OK/unlimited OK"},
		{0, all(hits(1, "user=zero"), hits(1, "user=c")), "no OVER/0 OK/4"},
		{0, all(look("user=c")), "ok OK/4"},
		{0, all(hits(1, "listed=good")), "ok OK/8"},
		{0, all(hits(1, "listed=bad"), hits(1, "user=c")), "no OVER/0 OK/4"},
		{0, all(hits(1, "ip=1")), "ok OK/0"},
		{0, all(hits(1, "ip=1")), "no OVER/0"},
		{0, all(hits(1, "ip=1"), hits(1, "vip=yes")), "ok OK OK/8"},
		{0, all(refund(2, "user=a")), "ok OK/4"},
		{0, all(refund(9, "user=a"), hits(1, "user=b")), "ok OK/5 OK/0"}, // never more than was used
		{0, all(look("user=a")), "ok OK/5"},
		{0, all(override(sluice.PerHour(2), "user=a")), "ok OK/1"},
		{0, all(override(sluice.PerHour(2), "user=a")), "ok OK/0"},
		{0, all(override(sluice.PerHour(2), "user=a")), "no OVER/0"},
		{0, all(override(sluice.PerHour(2), "none=a")), "ok OK/1"},
		{0, all(override(sluice.Per(0, time.Hour), "none=a")), "no OVER/0"},
		{0, all(hits(5, "user=a")), "ok OK/0"},
		{-time.Minute, all(hits(1, "user=a")), "no OVER/0"}, // an earlier window gives nothing back
		{2 * time.Minute, all(hits(1, "user=a")), "ok OK/4"},
		{0, nil, "ok"},
	} {
		*now = now.Add(c.pass)
		v := d.DecideDescriptors(t.Context(), "d", c.call)
		if got := statuses(&v); got != c.want {
			t.Errorf("step %d: %s, want %s: %s", i, got, c.want, v.String())
		}
		if v.Err != nil || v.Refused != nil {
			t.Errorf("step %d: %v, %v", i, v.Err, v.Refused)
		}
	}
}

// Each descriptor of a call has the rate and the reset of its own limit.
func TestDescriptorNumbers(t *testing.T) {
	costly := described("costly", 100, "costly")
	costly.Cost.Units = 10
	d, _ := describing(t, policy.Options{Domains: []string{"empty"}, Rules: []policy.Rule{
		described("user", 5, "user"), costly,
		{Name: "zero", Always: true, Match: described("", 0, "user=zero").Match},
	}})
	v := d.DecideDescriptors(t.Context(), "d", []descriptors.Request{hits(1, "user=a"), hits(1, "user=zero"), hits(3, "costly=a"), hits(math.MaxInt64, "costly=a")})
	first, zero, costs, most := &v.Descriptors[0], &v.Descriptors[1], &v.Descriptors[2], &v.Descriptors[3]
	// The call is denied, so nothing is used.
	if first.Rate != sluice.PerMinute(5) || first.Reset() != 0 || zero.Rate != sluice.Per(0, time.Second) {
		t.Errorf("%v resets in %v; %v", first.Rate, first.Reset(), zero.Rate)
	}
	if costs.Results[0].Request.Cost != 30 || most.Results[0].Request.Cost != math.MaxInt64 {
		t.Errorf("costs %d and %d", costs.Results[0].Request.Cost, most.Results[0].Request.Cost)
	}
	v = d.DecideDescriptors(t.Context(), "d", []descriptors.Request{hits(1, "user=a")})
	if got := v.Descriptors[0].Reset(); got != 50*time.Second { // windows are aligned to the minute
		t.Errorf("resets in %v", got)
	}
	rate := sluice.PerMinute(1)
	for domain, known := range map[string]bool{"empty": true, "unknown": false} {
		v := d.DecideDescriptors(t.Context(), domain, []descriptors.Request{{Entries: entries("a=b"), Limit: &rate}})
		if v.Known != known || v.Descriptors[0].Override != known || (v.Descriptors[0].Rule != nil) != known {
			t.Errorf("domain %q: %+v", domain, v.Descriptors[0])
		}
	}
	for _, bad := range []descriptors.Request{hits(-1, "user=a"), {Entries: entries("user=a"), Limit: &sluice.Rate{}}} {
		if bad.Limit != nil {
			*bad.Limit = sluice.Per(5, -time.Second)
		}
		v := d.DecideDescriptors(t.Context(), "d", []descriptors.Request{bad})
		var wrong *policy.AttributeError
		if v.Allowed() || !errors.As(v.Refused, &wrong) {
			t.Errorf("bad numbers %+v passed: %s", bad, v.String())
		}
	}
}

func TestDescriptorsWithoutStore(t *testing.T) {
	deny := described("deny", 1, "deny")
	deny.OnStoreError = sluice.FallbackDeny
	quota := described("quota", 1, "quota")
	quota.OnStoreError, quota.Match.Descriptor.Quota = sluice.FallbackDeny, true
	d, err := policy.NewDecider(mustPolicy(t, policy.Options{Rules: []policy.Rule{described("allow", 1, "allow"), deny, quota}}), &stub{err: errors.New("gone")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		call string
		want string
	}{
		{"allow=1", "ok OK/0"}, {"deny=1", "no OVER/0"}, {"allow=1 deny=1", "no OK/0 OVER/0"}, {"quota=1", "no OVER/0"}, {"none=1", "ok OK"},
	} {
		var q []descriptors.Request
		for _, text := range strings.Fields(c.call) {
			q = append(q, hits(1, text), descriptors.Request{Entries: entries(text), Refund: true, Cost: 1})
		}
		v := d.DecideDescriptors(t.Context(), "d", q)
		got := strings.Fields(statuses(&v))
		kept := got[:1]
		for i := 1; i < len(got); i += 2 {
			kept = append(kept, got[i])
			if refund := &v.Descriptors[i]; refund.Rule != nil && (refund.Err == nil || refund.Refunded || refund.Over) {
				t.Errorf("%s: the refund: %v", c.call, refund.Err)
			}
		}
		if text := strings.Join(kept, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.call, text, c.want)
		}
	}
}

// TestRefundsReachEachAlgorithm gives units back to each algorithm. A bucket that warms up has units when its last charge is paid.
func TestRefundsReachEachAlgorithm(t *testing.T) {
	for _, c := range []struct {
		algorithm sluice.Algorithm
		want      string
	}{
		{sluice.FixedWindow{Rate: sluice.PerHour(10)}, "7"},
		{sluice.FixedWindow{Rate: sluice.PerHour(10), CountDenied: true}, "7"},
		{sluice.TokenBucket{Rate: sluice.PerDay(10)}, "7"},
		{sluice.TokenBucket{Rate: sluice.PerDay(10), WarmUp: time.Hour}, "0"},
		{sluice.SlidingWindow{Rate: sluice.PerHour(10)}, "7"},
		{sluice.SlidingCounter{Rate: sluice.PerHour(10)}, "7"},
		{sluice.SlidingLog{Rate: sluice.PerHour(10)}, "7"},
		{sluice.LeakyBucket{Rate: sluice.PerDay(10), Queue: 9, Undelayed: 9}, "no"},
	} {
		r := described("r", 0, "user")
		r.Limits = []*sluice.Limit{sluice.MustLimit("", c.algorithm)}
		d, _ := describing(t, policy.Options{Rules: []policy.Rule{r}})
		d.DecideDescriptors(t.Context(), "d", []descriptors.Request{hits(5, "user=a")})
		v := d.DecideDescriptors(t.Context(), "d", []descriptors.Request{{Entries: entries("user=a"), Cost: 2, Refund: true}})
		got := fmt.Sprint(v.Descriptors[0].Remaining())
		if errors.Is(v.Descriptors[0].Err, errors.ErrUnsupported) {
			got = "no"
		}
		if got != c.want || v.Descriptors[0].Refunded != (got != "no") || !v.Allowed() {
			t.Errorf("%v: %s remain, want %s: %v", c.algorithm, got, c.want, v.Descriptors[0].Err)
		}
		// A refund never gives more than the limit has.
		v = d.DecideDescriptors(t.Context(), "d", []descriptors.Request{{Entries: entries("user=a"), Cost: math.MaxInt64, Refund: true}})
		if left := v.Descriptors[0].Remaining(); got != "no" && left != 10 {
			t.Errorf("%v: %d of 10 remain", c.algorithm, left)
		}
	}
}

// Each mistake of a descriptor's rule is an error that names the field.
func TestDescriptorMistakesNameTheField(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *policy.Rule)
		want   string
	}{
		{"domain", func(r *policy.Rule) { r.Match.Descriptor.Domain = "" }, "Match.Descriptor.Domain is missing"},
		{"entries", func(r *policy.Rule) { r.Match.Descriptor.Entries = nil }, "Match.Descriptor.Entries are missing"},
		{"key", func(r *policy.Rule) { r.Match.Descriptor.Entries[0].Key = "" }, "Entries[0].Key is missing"},
		{"star", func(r *policy.Rule) { r.Match.Descriptor.Entries[0].Key = "a*" }, "has a star"},
		{"shared", func(r *policy.Rule) { r.Match.Descriptor.Entries[0].Shared = true }, "the value has no star"},
		{"path", func(r *policy.Rule) { r.Match.Paths = []string{"/a"} }, "together with conditions on requests"},
		{"replaces itself", func(r *policy.Rule) { r.Match.Descriptor.Label, r.Match.Descriptor.Replaces = "x", []string{"x"} }, "own label"},
		{"replaces nothing", func(r *policy.Rule) { r.Match.Descriptor.Replaces = []string{""} }, "Replaces[0] is empty"},
		{"unlimited", func(r *policy.Rule) { r.Unlimited = true }, "have no effect"},
		{"exempt", func(r *policy.Rule) { r.Exempt = true }, "Exempt is set, so"},
		{"both", func(r *policy.Rule) { r.Limits, r.Exempt, r.Unlimited = nil, true, true }, "Unlimited too"},
		{"no limits", func(r *policy.Rule) { r.Limits = nil }, "Limits are missing"},
		{"wait", func(r *policy.Rule) { r.MaxWait = time.Second }, "does not wait"},
		{"lease", func(r *policy.Rule) { r.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 1})} }, "grants leases"},
		{"part of requests", func(r *policy.Rule) { r.Key = []policy.Part{policy.ClientIP()} }, "is a part of requests"},
		{"unknown part", func(r *policy.Rule) { r.Key = []policy.Part{{Source: source.Descriptor, Name: "b"}} }, "is the value of no entry"},
		{"twice", func(r *policy.Rule) {
			r.Key = []policy.Part{{Source: source.Descriptor, Name: "a"}, {Source: source.Descriptor, Name: "a"}}
		}, "Key[1]"},
		{"cost", func(r *policy.Rule) { r.Cost.Header = "X-Cost" }, "is not constant"},
		{"ban", func(r *policy.Rule) {
			r.Match.Descriptor.Entries[0].Value, r.Ban = "v", &sluice.Ban{After: 1, For: time.Minute}
		}, "bans all clients at once"},
		{"same", func(r *policy.Rule) { r.Match.Descriptor.Entries[0].Key = "other" }, `is the descriptor of rule "other" too`},
	} {
		r := described("r", 1, "a")
		c.change(&r)
		_, err := policy.New(policy.Options{Rules: []policy.Rule{described("other", 1, "other"), r}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	r := described("r", 1, "a")
	r.Match.Descriptor, r.Key = nil, []policy.Part{{Source: source.Descriptor, Name: "a"}}
	if _, err := policy.New(policy.Options{Rules: []policy.Rule{r}}); err == nil || !strings.Contains(err.Error(), "the rule matches requests") {
		t.Error(err)
	}
	r.Unlimited, r.Key, r.Limits = true, []policy.Part{policy.Global()}, nil
	if _, err := policy.New(policy.Options{Rules: []policy.Rule{r}}); err == nil || !strings.Contains(err.Error(), "independent") {
		t.Error(err)
	}
}

// TestDescriptorRules decides about a descriptor's rule by name, and bans, lists and resets its keys.
func TestDescriptorRules(t *testing.T) {
	r := described("r", 2, "tenant", "kind=x", "user=*")
	r.Ban = &sluice.Ban{After: 1, For: time.Hour}
	d, _ := describing(t, policy.Options{Rules: []policy.Rule{r}})
	ask := func() string {
		v := d.DecideDescriptors(t.Context(), "d", []descriptors.Request{hits(2, "tenant=t", "kind=x", "user=")})
		return statuses(&v)
	}
	if got := ask(); got != "ok OK/0" {
		t.Errorf("a fresh budget should take both hits: %s", got)
	}
	v, err := d.DecideRule(t.Context(), policy.RuleRequest{Rule: "r", Key: []string{"t", ""}})
	if err != nil || v.Allowed() {
		t.Errorf("the second question by name: %v, %s; want a denial", err, v.String())
	}
	if bans, _, err := d.ListBans(t.Context(), sluice.BanQuery{}); err != nil || len(bans) != 1 || !slices.Equal(bans[0].Values, []string{"t", ""}) {
		t.Errorf("bans of the descriptor's rule: %+v, %v; want its key", bans, err)
	}
	if err := d.Reset(t.Context(), "r", "t", ""); err != nil {
		t.Error(err)
	}
	if got := ask(); got != "ok OK/0" {
		t.Errorf("after the reset, the budget should take both hits: %s", got)
	}
}

// The units of a rule multiply the hits of a call. A product beyond all numbers is the largest number, and never a
// small one.
func TestCostsOfDescriptors(t *testing.T) {
	for _, c := range []struct{ hits, units, want int64 }{
		{7, 0, 7},
		{7, 1, 7},
		{7, 2, 14},
		{0, 3, 3},
		{1 << 30, 1 << 32, 1 << 62},
		{math.MaxInt64 / 2, 2, math.MaxInt64 - 1},
		{1 << 62, 2, math.MaxInt64},       // no int64
		{1 << 32, 1 << 32, math.MaxInt64}, // 0 in 64 bits
		{1<<32 + 1, 1 << 32, math.MaxInt64},
		{math.MaxInt64, 1 << 32, math.MaxInt64},
	} {
		r := described("r", 1<<32, "user=")
		r.Cost.Units = c.units
		s := &stub{keep: true}
		d, err := policy.NewDecider(mustPolicy(t, policy.Options{Rules: []policy.Rule{r}}), s)
		if err != nil {
			t.Fatal(err)
		}
		v := d.DecideDescriptors(t.Context(), "d", []descriptors.Request{hits(c.hits, "user=a")})
		if len(s.requests) != 1 || s.requests[0].Cost != c.want {
			t.Errorf("%d hits of %d units: %s, %+v", c.hits, c.units, v.String(), s.requests)
		}
	}
}
