package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// A header that the program behind never gets counts as missing: in a key, a match, a class and a cost. The request
// itself keeps the header, which a proxy reads.
func TestRemovedHeadersAreMissing(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	present := []policy.ValueMatch{{Name: "X-Forwarded-For"}}
	rule := func(name string, limit int64) policy.Rule {
		return policy.Rule{
			Name: name, Match: policy.Match{Paths: []string{"/" + name}}, Key: []policy.Part{policy.Global()},
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(limit)})},
		}
	}
	key, match, cost := rule("key", 1), rule("match", 1), rule("cost", 3)
	key.Key = []policy.Part{policy.Header("Te"), policy.Header("X-Real-Ip")}
	match.Match.Unless = []policy.Match{{Headers: present}}
	cost.Cost = policy.Cost{Source: policy.CostHeader, Header: "Keep-Alive"}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{key, match, cost}, Classes: []policy.Class{{Name: "inside", Match: policy.Match{Headers: present}, Bypass: true}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store, Removes: func(r *http.Request, name string) bool {
		return r.RemoteAddr != "192.0.2.9:1" && removal.Of(name) != removal.Stays
	}})
	if err != nil {
		t.Fatal(err)
	}
	allowed := func(path, name, value, peer string) bool {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = peer
		r.Header[name] = []string{value}
		v := d.Decide(r)
		if r.Header.Get(name) != value {
			t.Errorf("%s is lost", name)
		}
		return v.Allowed()
	}
	const client, proxy = "198.51.100.1:1", "192.0.2.9:1"
	for _, path := range []string{"/key", "/match"} {
		for i, name := range []string{"X-Real-Ip", "Te", "X-Forwarded-For", "X-Real-Ip", "Te"} {
			if got := allowed(path, name, string(rune('a'+i)), client); got != (i == 0) {
				t.Errorf("request %d to %s with %s: %v", i, path, name, got)
			}
		}
	}
	if !allowed("/key", "X-Real-Ip", "203.0.113.1", proxy) || !allowed("/match", "X-Forwarded-For", "203.0.113.1", proxy) {
		t.Error("the header of a proxy counts as missing")
	}
	if allowed("/cost", "Keep-Alive", "4", proxy) || !allowed("/cost", "Keep-Alive", "4", client) {
		t.Error("a cost that the service never gets counts")
	}
	// Each hop has an Upgrade of its own. A rule about it does not remove it, though Connection names it.
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	upgrades := rule("upgrades", 1)
	upgrades.Match = policy.Match{Headers: []policy.ValueMatch{{Name: "Upgrade"}}}
	if p, err = policy.New(policy.Options{Rules: []policy.Rule{upgrades}}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetPolicy(p); err != nil {
		t.Error(err)
	}
	m, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Upgrade") })).ServeHTTP(httptest.NewRecorder(), r)
	if got != "websocket" {
		t.Errorf("Upgrade is %q", got)
	}
}

// The header Host is the canonical host, also over HTTP/2 with a header beside :authority. Another host there is
// refused.
func TestHostIsOneValue(t *testing.T) {
	var seen string
	rule := policy.Rule{Name: "r", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)})}}
	rule.Match.If = []policy.Matcher{matcherFunc(func(a *policy.Attributes) bool {
		seen = a.Read(policy.FromHeader, "Host").First
		return false
	})}
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{rule}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, beside string
		refused      bool
	}{
		{"api.example.com", "", false},
		{"API.example.com", "", false},
		{"api.example.com.", "", false},
		{"api.example.com:80", "", false},
		{"Api.Example.com.:8443", "", false},
		{"api.example.com", "API.example.com:443", false},
		{"api.example.com", "other.example.com", true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, seen = c.host, ""
		if c.beside != "" {
			r.ProtoMajor, r.Header["Host"] = 2, []string{c.beside}
		}
		if v := d.Decide(r); (v.Refused != nil) != c.refused || !c.refused && seen != "api.example.com" {
			t.Errorf("%+v: the header Host was seen as %q, refusal %v", c, seen, v.Refused)
		}
	}
	// Two spellings of one host are one key for a limiter without rules too.
	k, err := httplimit.NewKeyDecider(httplimit.KeyOptions{Store: store, Limits: rule.Limits, Key: []policy.Part{policy.Header("Host").IfMissing(policy.MissingDeny)}})
	if err != nil {
		t.Fatal(err)
	}
	for i, host := range []string{"api.example.com", "API.example.com", "api.example.com.:80"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if v := k.Decide(r); v.Allowed() != (i == 0) {
			t.Errorf("%s is another key than api.example.com: %s", host, v.String())
		}
	}
}

type matcherFunc func(*policy.Attributes) bool

func (f matcherFunc) Matches(a *policy.Attributes) bool { return f(a) }
