package policy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/policy"
)

// local is a condition with a text for traces.
type local struct{ fromLoopback }

func (local) String() string { return "from this machine" }

// TestTraceNamesTheConditionThatFails tries each condition.
func TestTraceNamesTheConditionThatFails(t *testing.T) {
	yes, no := true, false
	request := policy.Attributes{
		Method: "GET", Host: "a.example.com:80", Path: "/%62/c", ClientIP: netip.MustParseAddr("::ffff:192.0.2.1"),
		Values: values{header: map[string]string{"X-Plan": "free"}, query: map[string]string{"q": "1"}},
	}
	for _, c := range []struct {
		match policy.Match
		want  *condition.Unmet
	}{
		{policy.Match{}, nil},
		{policy.Match{Hosts: []string{"b.example.com"}}, &condition.Unmet{Condition: condition.Host, Value: "a.example.com", OneOf: []string{"b.example.com"}}},
		{policy.Match{Paths: []string{"/b/c"}}, nil},
		{policy.Match{Paths: []string{"/b", "/c"}}, &condition.Unmet{Condition: condition.Path, Value: "/b/c", OneOf: []string{"/b", "/c"}}},
		{policy.Match{Methods: []string{"POST"}, Marked: &yes}, &condition.Unmet{Condition: condition.Method, Value: "GET", OneOf: []string{"POST"}}},
		{policy.Match{Classes: []string{"gold"}}, &condition.Unmet{Condition: condition.Class, Value: "plain"}},
		{policy.Match{Marked: &yes}, &condition.Unmet{Condition: condition.Marked}},
		{policy.Match{Marked: &no}, nil},
		{
			policy.Match{Headers: []policy.ValueMatch{{Name: "x-plan", OneOf: []string{"pro"}, Prefixes: []string{"gold"}}}},
			&condition.Unmet{Condition: condition.Header, Name: "X-Plan", Value: "free", OneOf: []string{"pro"}, Prefixes: []string{"gold"}},
		},
		{policy.Match{Headers: []policy.ValueMatch{{Name: "x-plan", Absent: true}}}, &condition.Unmet{Condition: condition.Header, Name: "X-Plan", Value: "free"}},
		{policy.Match{Cookies: []policy.ValueMatch{{Name: "s"}}}, &condition.Unmet{Condition: condition.Cookie, Name: "s", Missing: true}},
		{policy.Match{Queries: []policy.ValueMatch{{Name: "q"}, {Name: "r"}}}, &condition.Unmet{Condition: condition.Query, Name: "r", Missing: true}},
		{policy.Match{Attributes: []policy.ValueMatch{{Name: "tenant"}}}, &condition.Unmet{Condition: condition.Attribute, Name: "tenant", Missing: true}},
		{policy.Match{ClientIPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, &condition.Unmet{Condition: condition.ClientIP, Value: "192.0.2.1"}},
		{policy.Match{If: []policy.Matcher{fromLoopback{}}}, &condition.Unmet{Condition: condition.If}},
		{policy.Match{If: []policy.Matcher{local{}}}, &condition.Unmet{Condition: condition.If, Name: "from this machine"}},
		{policy.Match{Pressure: 0.9, PressureOf: "other"}, &condition.Unmet{Condition: condition.Pressure, Name: "other", Pressure: 0.5, AtLeast: 0.9}},
		{policy.Match{Pressure: 0.5, PressureOf: "other"}, nil},
		{policy.Match{Unless: []policy.Match{{Methods: []string{"GET"}}}}, &condition.Unmet{Condition: condition.Unless, Exception: 1, Exceptions: 1}},
		{policy.Match{Unless: []policy.Match{{Methods: []string{"PUT"}}, {Paths: []string{"/b/*"}}}}, &condition.Unmet{Condition: condition.Unless, Exception: 2, Exceptions: 2}},
	} {
		p, err := policy.New(policy.Options{
			Classes: []policy.Class{{Name: "gold", Match: policy.Match{Methods: []string{"PUT"}}}, {Name: "plain"}},
			Rules: []policy.Rule{
				{Name: "rule", Match: c.match, Key: []policy.Part{policy.Global()}, Limits: bucket()},
				{Name: "other", Match: policy.Match{Paths: []string{"/other"}}, Key: []policy.Part{policy.Global()}, Limits: bucket()},
			},
			Pressure: func(string) float64 { return 0.5 },
		})
		if err != nil {
			t.Fatal(err)
		}
		trace := p.Trace(&request)
		if got := trace.Rules[0].Unmet; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.match, got, c.want)
		}
		if trace.Method != http.MethodGet || trace.Host != "a.example.com" || trace.Path != "/b/c" || trace.Class != "plain" || trace.ClientIP.String() != "192.0.2.1" || trace.Matches() != (c.want == nil) {
			t.Errorf("the trace has the request as %+v", trace)
		}
	}
}

func TestTraceShowsKeysAndLists(t *testing.T) {
	build := func(parts ...policy.Part) *policy.Policy {
		p, err := policy.New(policy.Options{
			Classes: []policy.Class{{Name: "free", Match: policy.Match{Paths: []string{"/free"}}, Bypass: true}},
			Rules: []policy.Rule{{
				Name: "rule", Key: parts, Limits: bucket(), Cost: policy.Cost{Units: 2},
				DenyIPs: []netip.Prefix{netip.MustParsePrefix("192.0.2.66/32")},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := build(policy.ClientIP(), policy.Header("X-User"))
	a := policy.Attributes{ClientIP: netip.MustParseAddr("2001:db8::1:2:3:4"), Values: values{}}
	r := p.Trace(&a).Rules[0]
	if len(r.Key) != 2 || r.Key[0].Value != "2001:db8::/64" || !r.Key[0].OK || r.Key[1].OK {
		t.Errorf("key = %+v", r.Key)
	}
	if len(r.Results) != 1 || r.Results[0].Request.Cost != 2 || !r.Results[0].Request.Peek || r.Results[0].Request.Key != p.LimitsFor(&a)[0].Request.Key {
		t.Errorf("results = %+v", r.Results)
	}
	a.ClientIP = netip.MustParseAddr("192.0.2.66")
	if r := p.Trace(&a).Rules[0]; r.Denied != sluice.ReasonListed || r.Results[0].Listed != policy.ListDeny {
		t.Errorf("on a list: %+v", r)
	}
	a.ClientIP = netip.MustParseAddr("192.0.2.1")
	if r := build(policy.Header("X-User").IfMissing(policy.MissingSkip)).Trace(&a).Rules[0]; !reflect.DeepEqual(r.Unmet, &condition.Unmet{Condition: condition.Key, Name: "header:X-User", Missing: true}) {
		t.Errorf("to be skipped: %+v", r)
	}
	if r := build(policy.Header("X-User").IfMissing(policy.MissingDeny)).Trace(&a).Rules[0]; r.Denied != sluice.ReasonMissingKey || r.Unmet != nil {
		t.Errorf("to be denied: %+v", r)
	}
	a.Path = "/free"
	if trace := p.Trace(&a); !trace.Bypass || trace.Matches() || !reflect.DeepEqual(trace.Rules[0].Unmet, &condition.Unmet{Condition: condition.Bypass, Name: "free"}) {
		t.Errorf("bypass: %+v", trace)
	}
}

// A trace calls no store, so it cannot find out whether a rule marks the request. It names the rule that may.
func TestTraceNamesRulesThatMark(t *testing.T) {
	yes := true
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "marks", Key: []policy.Part{policy.Global()}, Limits: bucket(), WhenLimited: policy.LimitedAction{Action: policy.Mark}},
		{Name: "asks", Match: policy.Match{Marked: &yes}, Key: []policy.Part{policy.Global()}, Limits: bucket()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Trace(&policy.Attributes{}).Rules[1].Unmet; !reflect.DeepEqual(got, &condition.Unmet{Condition: condition.Marked, Name: "marks"}) {
		t.Errorf("condition that fails: %+v, want the mark of rule marks", got)
	}
	if got := p.Trace(&policy.Attributes{Marked: true}).Rules[1].Unmet; got != nil {
		t.Errorf("a marked request: %+v", got)
	}
}

// A rule with Always shows the reason of its limit, not of a list.
func TestTraceOfAlwaysLimited(t *testing.T) {
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "closed", Always: true}}})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Trace(&policy.Attributes{}).Rules[0]
	v := p.Decide(t.Context(), mustMemory(t), &policy.Attributes{})
	if r.Denied != v.Reason || r.Denied != sluice.ReasonLimited {
		t.Errorf("the trace says %v, and the verdict %v", r.Denied, v.Reason)
	}
}

// TestTraceAgreesWithDecisions: a trace matches the rules whose limits a decision would charge.
func TestTraceAgreesWithDecisions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[rnd.IntN(len(texts))] }
	some := func(texts ...string) (few []string) {
		for _, text := range texts {
			if rnd.IntN(4) == 0 {
				few = append(few, text)
			}
		}
		return few
	}
	var match func(depth int) policy.Match
	match = func(depth int) policy.Match {
		m := policy.Match{
			Paths: some("/a", "/a/*", "/a/**", "/**/b", "/"), Methods: some("GET", "POST", "PUT"),
			Hosts: some("x.test", "*.test", "y.z.test"), Classes: some("one", "two"),
		}
		if rnd.IntN(3) == 0 {
			m.Headers = []policy.ValueMatch{{Name: "X-A", OneOf: some("1", "2", "3"), Prefixes: some("4", "")}}
		}
		if rnd.IntN(4) == 0 {
			m.Cookies = []policy.ValueMatch{{Name: "c", Absent: true}}
		}
		if rnd.IntN(4) == 0 {
			m.ClientIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")}
		}
		if rnd.IntN(4) == 0 {
			marked := rnd.IntN(2) == 0
			m.Marked = &marked
		}
		if rnd.IntN(4) == 0 {
			m.If = []policy.Matcher{fromLoopback{}}
		}
		if rnd.IntN(4) == 0 {
			m.Pressure, m.PressureOf = rnd.Float64()+0.01, "last"
		}
		if depth > 0 && rnd.IntN(3) == 0 {
			u := match(depth - 1)
			u.Methods = []string{pick("GET", "POST")}
			m.Unless = []policy.Match{u}
		}
		return m
	}
	matched := 0
	for range 300 {
		o := policy.Options{
			Classes:  []policy.Class{{Name: "one", Match: policy.Match{Methods: []string{"POST"}}}, {Name: "two", Match: policy.Match{Paths: []string{"/a/**"}}}},
			Pressure: func(string) float64 { return 0.5 },
		}
		for i := range 5 {
			key := policy.Header("X-A")
			if rnd.IntN(2) == 0 {
				key.OnMissing = policy.MissingSkip
			}
			o.Rules = append(o.Rules, policy.Rule{Name: fmt.Sprintf("r%d", i), Match: match(2), Key: []policy.Part{key}, Limits: bucket()})
		}
		o.Rules = append(o.Rules, policy.Rule{Name: "last", Key: []policy.Part{policy.Global()}, Limits: bucket()})
		p, err := policy.New(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			v := values{}
			if rnd.IntN(3) > 0 {
				v.header = map[string]string{"X-A": pick("1", "2", "4x", "")}
			}
			if rnd.IntN(3) == 0 {
				v.cookie = map[string]string{"c": "1"}
			}
			a := &policy.Attributes{
				Method: pick("GET", "HEAD", "POST"), Host: pick("x.test", "Z.test.", "other"), Path: pick("/", "/a", "/a/b", "/a//%62/", "/c/b", "/a/%2e%2e/c/b", "/c/../a", "/c/b/%2e%2e/../a"),
				ClientIP: netip.MustParseAddr(pick("192.0.2.1", "192.0.2.200", "127.0.0.1")), Values: v, Marked: rnd.IntN(2) == 0,
			}
			var want, got []string
			for _, m := range p.LimitsFor(a) {
				want = append(want, m.Rule.Name)
			}
			for _, r := range p.Trace(a).Rules {
				if r.Unmet == nil {
					got = append(got, r.Rule.Name)
					if len(r.Results) != 1 || r.Results[0].Rule != r.Rule {
						t.Fatalf("rule %+v has not exactly one result, its own", r)
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v of %+v: a trace matches %v, and a decision charges %v", a, o.Rules, got, want)
			}
			matched += len(got) - 1
		}
	}
	if matched < 1000 {
		t.Errorf("only %d rules matched", matched)
	}
}

// The trace of a descriptor names the list that denies it, and its requests to the store take nothing.
func TestDescriptorTraceTakesNothing(t *testing.T) {
	rule := described("listed", 9, "listed")
	rule.DenyKeys = [][]string{{"bad"}}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
	if got := p.TraceDescriptor("d", entries("listed=bad")); got.Denied != sluice.ReasonListed || len(got.Results) != 1 || got.Results[0].Listed != policy.ListDeny {
		t.Errorf("a listed key has the trace %+v", got)
	}
	if got := p.TraceDescriptor("d", entries("listed=good")); got.Denied != sluice.ReasonNone || len(got.Results) != 1 || !got.Results[0].Request.Peek {
		t.Errorf("another key has the trace %+v", got)
	}
}
