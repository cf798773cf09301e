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

func TestParts(t *testing.T) {
	const deny = httplimit.MissingDeny
	post := httptest.NewRequest(http.MethodPost, "/", nil)
	for _, c := range []struct {
		name string
		part httplimit.Part
		r    *http.Request
		want string // empty for none
	}{
		{"header", httplimit.Header("x-api-key", deny), get("/", "X-API-Key: a"), "a"},
		{"header, two lines", httplimit.Header("X-API-Key", deny), get("/", "X-API-Key: a", "X-API-Key: b"), ""},
		{"header, first line", httplimit.Header("X-API-Key", deny).IfRepeated(policy.RepeatedFirst), get("/", "X-API-Key: a", "X-API-Key: b"), "a"},
		{"header, last line", httplimit.Header("X-API-Key", deny).IfRepeated(policy.RepeatedLast), get("/", "X-API-Key: a", "X-API-Key: b"), "b"},
		{"header, absent", httplimit.Header("X-API-Key", deny), get("/"), ""},
		{"header, empty", httplimit.Header("X-API-Key", deny), get("/", "X-API-Key: "), ""},
		{"header, the host", httplimit.Header("host", deny), get("http://example.com/"), "example.com"},
		{"cookie", httplimit.Cookie("session", deny), get("/", "Cookie: a=b; session=s"), "s"},
		{"cookie, absent", httplimit.Cookie("session", deny), get("/", "Cookie: a=b"), ""},
		{"query", httplimit.Query("key", deny), get("/?a=1&k%65y=x%20y&b=z"), "x y"},
		{"query, twice", httplimit.Query("key", deny), get("/?a=1&k%65y=x%20y&key=z"), ""},
		{"query, the first", httplimit.Query("key", deny).IfRepeated(policy.RepeatedFirst), get("/?a=1&k%65y=x%20y&key=z"), "x y"},
		{"query, the last", httplimit.Query("key", deny).IfRepeated(policy.RepeatedLast), get("/?a=1&k%65y=x%20y&key=z"), "z"},
		{"query, absent", httplimit.Query("key", deny), get("/?keys=1"), ""},
		{"method", httplimit.Method(), post, "POST"},
		{"method of a client's request", httplimit.Method(), &http.Request{}, "GET"},
		{"path", httplimit.Path(), get("/a//b/"), "/a/b"},
		{"path, none", httplimit.Path(), &http.Request{}, "/"},
		{"host", httplimit.Host(deny), get("http://Example.COM:8080/"), "example.com"},
		{"host, none", httplimit.Host(deny), &http.Request{}, ""},
		{"constant", httplimit.Constant("all"), get("/"), "all"},
		{"function", httplimit.PartFunc("tenant", func(*http.Request) (string, bool) { return "t", true }, deny), get("/"), "t"},
		{"function, absent", httplimit.PartFunc("tenant", func(*http.Request) (string, bool) { return "t", false }, deny), get("/"), ""},
		{"pattern, outside of a mux", httplimit.Pattern(deny), get("/"), ""},
		{"path value, outside of a mux", httplimit.PathValue("id", deny), get("/"), ""},
		{"pattern of", httplimit.PatternOf(deny, "/users/{id}", "GET /users/me", "/static/"), get("/users/7"), "/users/{id}"},
		{"pattern of, the most specific", httplimit.PatternOf(deny, "/users/{id}", "GET /users/me", "/static/"), get("/users/me"), "GET /users/me"},
		{"pattern of, redirected", httplimit.PatternOf(deny, "/users/{id}", "/static/{x}/"), get("/static/b"), "/static/{x}/"},
		{"pattern of, to be cleaned", httplimit.PatternOf(deny, "/users/{id}"), get("//users/./7"), "/users/{id}"},
		{"pattern of, no other", httplimit.PatternOf(deny, "/users/{id}"), get("/other"), ""},
		{"pattern of, other method", httplimit.PatternOf(deny, "POST /users"), get("/users"), ""},
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
		Key: []httplimit.Part{httplimit.Pattern(httplimit.MissingDeny), httplimit.PathValue("id", httplimit.MissingDeny)},
	}), httplimit.Options{}, nothing)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", h)
	mux.ServeHTTP(httptest.NewRecorder(), get("/users/7"))
	if want := sluice.NewKey("GET /users/{id}", "7"); store.decided[0].Key != want {
		t.Errorf("the key is %q; want %q", store.decided[0].Key, want)
	}
}

func TestKeyOptions(t *testing.T) {
	limit := sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})
	limits, store := []*sluice.Limit{limit}, &recordingStore{}
	key := []httplimit.Part{httplimit.Method()}
	deny := httplimit.MissingDeny
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
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: make([]httplimit.Part, 1)}, "Key[0]: is the zero Part"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.Header("", deny)}}, "Header has no name"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.Cookie("", deny)}}, "Cookie has no name"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.Query("", deny)}}, "Query has no name"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.PathValue("", deny)}}, "PathValue has no name"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.Constant("")}}, "Constant is empty"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.PartFunc("x", nil, deny)}}, "PartFunc has no function"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.PatternOf(deny)}}, "PatternOf has no pattern"},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.PatternOf(deny, "/a", "/a")}}, `pattern "/a"`},
		{httplimit.KeyOptions{Store: store, Limits: limits, Key: []httplimit.Part{httplimit.Header("A", 9)}}, `Key[0] "header:A" has an unknown OnMissing`},
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
	header := func(m httplimit.Missing) httplimit.Part { return httplimit.Header("X-User", m) }
	absent, empty, present := get("/"), get("/", "X-User: "), get("/", "X-User: u")

	for _, r := range []*http.Request{absent, empty} {
		if _, v := decidedKey(t, r, header(httplimit.MissingDeny)); v.Allowed() || httplimit.Status(&v) != http.StatusBadRequest {
			t.Errorf("to be denied: %+v", v)
		}
		if key, v := decidedKey(t, r, header(httplimit.MissingSkip)); !v.Allowed() || key.Len() != 0 || v.TightestLimit != nil {
			t.Errorf("to be skipped: %+v", v)
		}
		key, _ := decidedKey(t, r, header(httplimit.MissingShared))
		if key.Len() != 2 {
			t.Errorf("to be shared: the key %q is one of %d parts, as a value could be", key, key.Len())
		}
	}
	a, _ := decidedKey(t, absent, header(httplimit.MissingShared))
	b, _ := decidedKey(t, empty, header(httplimit.MissingShared))
	c, _ := decidedKey(t, present, header(httplimit.MissingShared))
	if a != b || a == c {
		t.Errorf("requests that share a key have %q and %q; a request with its own key has %q", a, b, c)
	}
	// Refusing wins over skipping, in any order.
	both := []httplimit.Part{header(httplimit.MissingSkip), httplimit.Cookie("c", httplimit.MissingDeny)}
	if _, v := decidedKey(t, absent, both...); v.Allowed() || v.Missing.Name != "c" || v.Missing.Source != policy.FromCookie {
		t.Errorf("to be denied: %+v", v)
	}
}

// Different parts make different keys, whatever bytes they hold, even if some parts
// are missing.
func TestDelimiterInjection(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"", ":", "_", "/", "{", "}", "\x00", "a", "b", "+", "-", "\x01", "\x02", "missing"}
	names := [3]string{"A", "B", "C"}
	var parts []httplimit.Part
	for _, name := range names {
		parts = append(parts, httplimit.Header(name, httplimit.MissingShared).IfRepeated(policy.RepeatedFirst)) // also with control characters
	}
	store := &recordingStore{}
	d := keyed(t, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})}, Key: parts,
	})
	seen := make(map[sluice.Key][3]string)
	for range 1_000_000 {
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
		if got := keyOf(t, httplimit.Path(), r); got != "/login" {
			t.Errorf("%s has the key %q", target, got)
		}
		if a := httplimit.Attributes(r, nil); (policy.Paths{EncodedSlash: policy.SlashDecode}).Clean(a.Path) != "/login" {
			t.Errorf("%s has the path %q for a policy", target, a.Path)
		}
	}
	for _, target := range []string{"/Login", "/login/x", "/login%20"} {
		r := get(target)
		if got := keyOf(t, httplimit.Path(), r); got == "/login" {
			t.Errorf("%s reaches another handler but has the same key", target)
		}
	}
}

func TestAttributes(t *testing.T) {
	r := get("http://Example.com:8080/a/%41?q=1", "X-A: 1", "Cookie: c=2")
	r.RemoteAddr = "[::ffff:192.0.2.1]:80"
	a := httplimit.Attributes(r, nil)
	if a.Method != http.MethodGet || policy.CleanHost(a.Host) != "example.com" || a.Path != "/a/%41" || a.ClientIP.String() != "192.0.2.1" {
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

func TestStoreErrors(t *testing.T) {
	outage := errors.New("no connection")
	for _, c := range []struct {
		name     string
		fallback policy.Fallback
		err      error
		allowed  bool
		status   int
	}{
		{"by default", policy.FallbackDefault, outage, true, 200},
		{"to be allowed", policy.FallbackAllow, outage, true, 200},
		{"to be denied", policy.FallbackDeny, outage, false, 503},
		{"unknown outcome", policy.FallbackDeny, fmt.Errorf("lost: %w", sluice.ErrUnknownOutcome), false, 503},
		{"invalid request", policy.FallbackAllow, &sluice.RequestError{Limit: "l", Problem: "is odd"}, false, 400},
	} {
		d := keyed(t, httplimit.KeyOptions{
			Store: failingStore{err: c.err}, Key: []httplimit.Part{httplimit.Constant("all")}, OnStoreError: c.fallback,
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
