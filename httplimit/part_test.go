package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

func get(target string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func TestPartsOfRequestsMakeKeys(t *testing.T) {
	const deny = policy.MissingDeny
	post := httptest.NewRequest(http.MethodPost, "/", nil)
	for _, c := range []struct {
		name string
		part policy.Part
		r    *http.Request
		want string // empty for none
	}{
		{"header", policy.Header("x-api-key").IfMissing(deny), get("/", "X-API-Key: a"), "a"},
		{"header, two lines", policy.Header("X-API-Key").IfMissing(deny), get("/", "X-API-Key: a", "X-API-Key: b"), ""},
		{"header, first line", policy.Header("X-API-Key").IfMissing(deny).IfRepeated(policy.RepeatedFirst), get("/", "X-API-Key: a", "X-API-Key: b"), "a"},
		{"header, last line", policy.Header("X-API-Key").IfMissing(deny).IfRepeated(policy.RepeatedLast), get("/", "X-API-Key: a", "X-API-Key: b"), "b"},
		{"header, absent", policy.Header("X-API-Key").IfMissing(deny), get("/"), ""},
		{"header, empty", policy.Header("X-API-Key").IfMissing(deny), get("/", "X-API-Key: "), ""},
		{"header, the host", policy.Header("host").IfMissing(deny), get("http://example.com/"), "example.com"},
		{"cookie", policy.Cookie("session").IfMissing(deny), get("/", "Cookie: a=b; session=s"), "s"},
		{"cookie, absent", policy.Cookie("session").IfMissing(deny), get("/", "Cookie: a=b"), ""},
		{"query", policy.Query("key").IfMissing(deny), get("/?a=1&k%65y=x%20y&b=z"), "x y"},
		{"query, twice", policy.Query("key").IfMissing(deny), get("/?a=1&k%65y=x%20y&key=z"), ""},
		{"query, the first", policy.Query("key").IfMissing(deny).IfRepeated(policy.RepeatedFirst), get("/?a=1&k%65y=x%20y&key=z"), "x y"},
		{"query, the last", policy.Query("key").IfMissing(deny).IfRepeated(policy.RepeatedLast), get("/?a=1&k%65y=x%20y&key=z"), "z"},
		{"query, absent", policy.Query("key").IfMissing(deny), get("/?keys=1"), ""},
		{"method", policy.Method(), post, "POST"},
		{"method of a client's request", policy.Method(), &http.Request{}, "GET"},
		{"path", policy.Path(), get("/a//b/"), "/a/b"},
		{"path, none", policy.Path(), &http.Request{}, "/"},
		{"host", policy.Host().IfMissing(deny), get("http://Example.COM:8080/"), "example.com"},
		{"host, none", policy.Host().IfMissing(deny), &http.Request{}, ""},
		{"constant", policy.Constant("all"), get("/"), "all"},
		{"function", httplimit.Function("tenant", func(*http.Request) (string, bool) { return "t", true }).IfMissing(deny), get("/"), "t"},
		{"function, absent", httplimit.Function("tenant", func(*http.Request) (string, bool) { return "t", false }).IfMissing(deny), get("/"), ""},
		{"pattern, outside of a mux", policy.Route().IfMissing(deny), get("/"), ""},
		{"path value, outside of a mux", policy.Param("id").IfMissing(deny), get("/"), ""},
		{"pattern of", routeOf(t, "/users/{id}", "GET /users/me", "/static/").IfMissing(deny), get("/users/7"), "/users/{id}"},
		{"pattern of, the most specific", routeOf(t, "/users/{id}", "GET /users/me", "/static/").IfMissing(deny), get("/users/me"), "GET /users/me"},
		{"pattern of, redirected", routeOf(t, "/users/{id}", "/static/{x}/").IfMissing(deny), get("/static/b"), "/static/{x}/"},
		{"pattern of, to be cleaned", routeOf(t, "/users/{id}").IfMissing(deny), get("//users/./7"), "/users/{id}"},
		{"pattern of, no other", routeOf(t, "/users/{id}").IfMissing(deny), get("/other"), ""},
		{"pattern of, other method", routeOf(t, "POST /users").IfMissing(deny), get("/users"), ""},
	} {
		key, v := decidedKey(t, c.r, c.part)
		if c.want != "" && (key != sluice.StringKey(c.want) || !v.Allowed()) {
			t.Errorf("%s: the key is %q of %d parts, %v; want %q", c.name, key.Text(), key.Len(), v.Action, c.want)
		}
		if c.want == "" && (v.Allowed() || v.Missing == nil || len(v.Results) > 0) {
			t.Errorf("%s: %v with key %q; want a denial", c.name, v.Action, key.Text())
		}
	}
}

func TestPatternInsideMux(t *testing.T) {
	store := &recordingStore{}
	limit := sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})
	h := wrap(t, keyed(t, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{limit},
		Key: []policy.Part{policy.Route().IfMissing(policy.MissingDeny), policy.Param("id").IfMissing(policy.MissingDeny)},
	}), httplimit.Options{}, nothing)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", h)
	mux.ServeHTTP(httptest.NewRecorder(), get("/users/7"))
	if want := sluice.NewKey("GET /users/{id}", "7"); store.decided[0].Key != want {
		t.Errorf("the key is %q; want %q", store.decided[0].Key, want)
	}
}

// routeOf returns a part, or fails the test.
func routeOf(t *testing.T, patterns ...string) policy.Part {
	t.Helper()
	p, err := httplimit.RouteOf(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// RouteOf refuses no patterns at all, and a pattern that is given twice.
func TestRouteOfRefusesNoPatternOrTwo(t *testing.T) {
	for want, patterns := range map[string][]string{"has no pattern": nil, `pattern "/a"`: {"/a", "/a"}} {
		if _, err := httplimit.RouteOf(patterns...); err == nil || !strings.HasPrefix(err.Error(), "httplimit: RouteOf") || !strings.Contains(err.Error(), want) {
			t.Errorf("patterns %q: error %v, want one with %q", patterns, err, want)
		}
	}
}

func methodless(*http.Request) (string, bool) { return "", false }

// Options of a limiter without rules that cannot work are errors, which name the field.
func TestKeyOptionsThatCannotWorkAreErrors(t *testing.T) {
	limit := sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})
	limits, store := []*sluice.Limit{limit}, &recordingStore{}
	key := []policy.Part{policy.Method()}
	for _, c := range []struct {
		o    httplimit.KeyOptions
		want string
	}{
		{httplimit.KeyOptions{Limits: limits, Key: key}, "Store is missing"},
		{httplimit.KeyOptions{Store: store, Key: key}, "Limits is empty"},
		{httplimit.KeyOptions{Store: store, Limits: make([]*sluice.Limit, 1), Key: key}, "Limits[0] is nil"},
		{httplimit.KeyOptions{Store: store, Limits: []*sluice.Limit{limit, limit}, Key: key}, `Limits[1].Name "l" is the name of another limit`},
		{httplimit.KeyOptions{Store: store, Limits: limits}, "Key is empty"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: key, MaxWait: -2}, "MaxWait is -2ns"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: key, OnStoreError: 9}, "OnStoreError is 9"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: key, Ban: &sluice.Ban{For: -1}}, "Ban.After is 0"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: make([]policy.Part, 1)}, `Key[0] "Source(0)" has no source`},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{policy.Header("")}}, "Key[0] \"header:\" has no name"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{policy.Param("")}}, "Key[0] \"param:\" has no name"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{policy.Constant("")}}, "Key[0] \"constant:\" has no name"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{httplimit.Function("x", nil)}}, "Key[0] \"function:x\" has no name or no function"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{httplimit.Function("", methodless)}}, "Key[0] \"function:\" has no name or no function"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{policy.Header("A").IfMissing(9)}}, `Key[0] "header:A" has an unknown OnMissing`},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{policy.Claim("sub")}}, `Key[0] "claim:sub" is a part for rules; give a Function`},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []policy.Part{policy.Template("{client_ip}")}}, "is a part for rules"},
	} {
		if _, err := httplimit.NewKeyDecider(c.o); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("got error %v; want one with %q", err, c.want)
		}
	}
	if _, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Store: store}); err == nil {
		t.Error("NewPolicyDecider accepted a missing policy")
	}
	if _, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: &policy.Policy{}}); err == nil {
		t.Error("NewPolicyDecider accepted a missing store")
	}
	if _, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: &policy.Policy{}, Store: store, MaxWait: -2}); err == nil {
		t.Error("NewPolicyDecider accepted a negative wait")
	}
}

// An absent header once made the key "". All clients without the header and all clients
// with an empty header shared that bucket.
func TestAbsentHeaderIsExplicit(t *testing.T) {
	header := policy.Header("X-User").IfMissing
	absent, empty, present := get("/"), get("/", "X-User: "), get("/", "X-User: u")

	for _, r := range []*http.Request{absent, empty} {
		if _, v := decidedKey(t, r, header(policy.MissingDeny)); v.Allowed() || denial.Status(&v) != http.StatusBadRequest {
			t.Errorf("to be denied: %+v", v)
		}
		if key, v := decidedKey(t, r, header(policy.MissingSkip)); !v.Allowed() || key.Len() != 0 || v.TightestLimit != nil {
			t.Errorf("to be skipped: %+v", v)
		}
		key, _ := decidedKey(t, r, header(policy.MissingShared))
		if key.Len() != 2 {
			t.Errorf("to be shared: the key %q is one of %d parts, as a value could be", key, key.Len())
		}
	}
	a, _ := decidedKey(t, absent, header(policy.MissingShared))
	b, _ := decidedKey(t, empty, header(policy.MissingShared))
	c, _ := decidedKey(t, present, header(policy.MissingShared))
	if a != b || a == c {
		t.Errorf("requests that share a key have %q and %q; a request with its own key has %q", a, b, c)
	}
	// Refusing wins over skipping, in any order.
	both := []policy.Part{header(policy.MissingSkip), policy.Cookie("c").IfMissing(policy.MissingDeny)}
	if _, v := decidedKey(t, absent, both...); v.Allowed() || v.Missing.Name != "c" || v.Missing.Source != policy.FromCookie {
		t.Errorf("to be denied: %+v", v)
	}
}

// Different parts make different keys, whatever bytes they hold, even if some parts
// are missing.
func TestPartsOfKeysDoNotCollide(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"", ":", "_", "/", "{", "}", "\x00", "a", "b", "+", "-", "\x01", "\x02", "missing"}
	names := [3]string{"A", "B", "C"}
	var parts []policy.Part
	for _, name := range names {
		parts = append(parts, policy.Header(name).IfRepeated(policy.RepeatedFirst)) // also with control characters
	}
	store := &recordingStore{}
	d := keyed(t, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})}, Key: parts,
	})
	seen := make(map[sluice.Key][3]string)
	for range soak.Times(t, 50_000) {
		r := &http.Request{Header: make(http.Header)}
		var values [3]string
		for i, name := range names {
			for range rng.IntN(4) {
				values[i] += alphabet[rng.IntN(len(alphabet))]
			}
			r.Header[name] = []string{values[i]}
		}
		store.decided = store.decided[:0]
		d.Decide(r)
		key := store.decided[0].Key
		if other, ok := seen[key]; ok && other != values {
			t.Fatalf("%q and %q have one key", other, values)
		}
		seen[key] = values
	}
}

// All paths for which a ServeMux finds the same handler have the same key.
func TestPathAliases(t *testing.T) {
	for _, target := range []string{
		"/login", "//login", "/./login", "/x/../login", "/%6cogin", "/lo%67in", "/%2e/login", "/x/%2e%2e/login", "/login/", "/login//", "/login/.", "/../login", "/login%2f", "/x%2f..%2Flogin",
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: http.MethodGet, URL: u}
		if got := keyOf(t, policy.Path(), r); got != "/login" {
			t.Errorf("%s has the key %q", target, got)
		}
		if a := httplimit.Attributes(r, nil); (policy.Paths{EncodedSlash: policy.SlashDecode}).Clean(a.Path) != "/login" {
			t.Errorf("%s has the path %q for a policy", target, a.Path)
		}
	}
	for _, target := range []string{"/Login", "/login/x", "/login%20"} {
		r := get(target)
		if got := keyOf(t, policy.Path(), r); got == "/login" {
			t.Errorf("%s reaches another handler but has the same key", target)
		}
	}
}

// The attributes of a request are its method, host, path, address and values.
func TestRequestsBecomeAttributes(t *testing.T) {
	r := get("http://Example.com:8080/a/%41?q=1", "X-A: 1", "Cookie: c=2")
	r.RemoteAddr = "[::ffff:192.0.2.1]:80"
	a := httplimit.Attributes(r, nil)
	if a.Method != http.MethodGet || spelling.Host(a.Host) != "example.com" || a.Path != "/a/%41" || a.ClientIP.String() != "192.0.2.1" {
		t.Errorf("got %+v", a)
	}
	for _, c := range []struct {
		got  func(string) (string, bool)
		name string
		want string
		ok   bool
	}{
		{a.Values.Header, "X-A", "1", true},
		{a.Values.Header, "X-B", "", false},
		{a.Values.Header, "Host", "Example.com:8080", true},
		{a.Values.Cookie, "c", "2", true},
		{a.Values.Cookie, "d", "", false},
		{a.Values.Query, "q", "1", true},
		{a.Values.Query, "r", "", false},
	} {
		if got, ok := c.got(c.name); got != c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v; want %q, %v", c.name, got, ok, c.want, c.ok)
		}
	}
	if a := httplimit.Attributes(&http.Request{}, nil); a.Method != http.MethodGet || a.Path != "" || a.ClientIP.IsValid() {
		t.Errorf("attributes of an empty request: got %+v", a)
	}
	if _, ok := httplimit.Attributes(&http.Request{}, nil).Values.Query("q"); ok {
		t.Error("an empty request has a query")
	}
}

// Values.Query finds the same value as net/url.
func FuzzQuery(f *testing.F) {
	f.Add("a=1&b=2", "b")
	f.Add("%61=%zz&a=+", "a")
	f.Add("a;b=1&=&a", "a")
	f.Add("a=1;2&a=3", "a")
	f.Fuzz(func(t *testing.T, raw, name string) {
		r := &http.Request{URL: &url.URL{RawQuery: raw}}
		got, ok := httplimit.Attributes(r, nil).Values.Query(name)
		want := r.URL.Query()
		if ok != want.Has(name) || got != want.Get(name) {
			t.Fatalf("%q of %q is %q, %v; net/url has %q", name, raw, got, ok, want[name])
		}
	})
}

// failingStore fails each decision.
type failingStore struct {
	sluice.Store
	err error
}

func (s failingStore) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, s.err
}

func TestAnswersWhileTheStoreFails(t *testing.T) {
	outage := errors.New("no connection")
	for _, c := range []struct {
		name     string
		fallback sluice.Fallback
		err      error
		allowed  bool
		status   int
	}{
		{"by default", sluice.FallbackDefault, outage, true, 200},
		{"to be allowed", sluice.FallbackAllow, outage, true, 200},
		{"to be denied", sluice.FallbackDeny, outage, false, 503},
		{"unknown outcome", sluice.FallbackDeny, fmt.Errorf("lost: %w", sluice.ErrUnknownOutcome), false, 503},
		{"invalid request", sluice.FallbackAllow, &sluice.RequestError{Limit: "l", Problem: "is odd"}, false, 400},
	} {
		d := keyed(t, httplimit.KeyOptions{
			Store: failingStore{err: c.err}, Key: []policy.Part{policy.Constant("all")}, OnStoreError: c.fallback,
			Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})},
		})
		var reported error
		h := wrap(t, d, httplimit.Options{OnError: func(_ *http.Request, err error) { reported = err }}, nothing)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/"))
		if w.Code != c.status || !errors.Is(reported, c.err) {
			t.Errorf("%s: status %d, reported %v", c.name, w.Code, reported)
		}
		if again := w.Header().Get("Retry-After"); (again == "1") != (c.status == 503) {
			t.Errorf("%s: Retry-After is %q", c.name, again)
		}
		if w.Header().Get("RateLimit") != "" {
			t.Errorf("%s: a header reports a limit that was not decided", c.name)
		}
	}
}
