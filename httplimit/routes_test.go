package httplimit_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/policy"
)

// router returns the first path segment that a service uses to find a handler, or "".
type router struct {
	name  string
	paths policy.Paths
	find  func(u *url.URL) string
}

// routers returns the different ways in which real services find handlers.
func routers() []router {
	mux := http.NewServeMux()
	for _, name := range []string{"api", "public"} {
		mux.HandleFunc("/"+name+"/", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Reached", name) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Reached", "other") })

	first := func(segments []string) string {
		for _, s := range segments {
			if s != "" {
				return s
			}
		}
		return "none"
	}
	cleaned := func(p string) string { return first(strings.Split(path.Clean("/"+p), "/")) }
	// decoded splits first and then decodes each segment.
	decoded := func(escaped string) []string {
		segments := strings.Split(escaped, "/")
		for i, s := range segments {
			if d, err := url.PathUnescape(s); err == nil {
				segments[i] = d
			}
		}
		return segments
	}
	// popped resolves dots as RFC 3986 does: two dots also remove an empty segment.
	popped := func(segments []string) (left []string) {
		for _, s := range segments[1:] {
			switch {
			case s == "..":
				left = left[:max(0, len(left)-1)]
			case s != ".":
				left = append(left, s)
			}
		}
		return left
	}
	// beginning does not merge slashes.
	beginning := func(p string) string {
		for _, name := range []string{"api", "public"} {
			if p == "/"+name || strings.HasPrefix(p, "/"+name+"/") {
				return name
			}
		}
		return "other"
	}
	keep := policy.Paths{EncodedSlash: policy.SlashKeep}
	slashes := policy.Paths{EncodedSlash: policy.SlashDecode}
	// twice decodes a path once more than most services.
	twice := func(p string) string {
		for range 2 {
			if d, err := url.PathUnescape(p); err == nil {
				p = d
			}
		}
		return p
	}
	backward := func(p string) string { return strings.ReplaceAll(p, `\`, "/") }
	return []router{
		{"a ServeMux", keep, func(u *url.URL) string {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: u, Host: "a.example"})
			return w.Header().Get("Reached") // not set by a redirection
		}},
		{"decode, clean, split", slashes, func(u *url.URL) string { return cleaned(u.Path) }},
		{"decode, split", slashes, func(u *url.URL) string { return first(strings.Split(u.Path, "/")) }},
		{"decode, split, dots pop empty segments", slashes, func(u *url.URL) string { return first(popped(strings.Split(u.Path, "/"))) }},
		{"split, decode, clean", keep, func(u *url.URL) string { // an encoded slash stays in its segment
			segments := decoded(u.EscapedPath())
			for i := range segments {
				segments[i] = strings.ReplaceAll(segments[i], "/", "\x00")
			}
			return cleaned(strings.Join(segments, "/"))
		}},
		{"split, decode", keep, func(u *url.URL) string { return first(decoded(u.EscapedPath())) }},
		{"clean, split, decode", keep, func(u *url.URL) string {
			return first(decoded(path.Clean("/" + u.EscapedPath())))
		}},
		{"dots pop empty segments, split, decode", keep, func(u *url.URL) string {
			return first(decoded("/" + strings.Join(popped(strings.Split(u.EscapedPath(), "/")), "/")))
		}},
		{"split, decode, dots pop empty segments", keep, func(u *url.URL) string { return first(popped(decoded(u.EscapedPath()))) }},
		{"a hop that cleans, then one that decodes and cleans", slashes, func(u *url.URL) string {
			p, err := url.PathUnescape(path.Clean("/" + u.EscapedPath()))
			if err != nil {
				return "none"
			}
			return cleaned(p)
		}},
		{"decode, compare the beginning", slashes, func(u *url.URL) string { return beginning(u.Path) }},
		{"compare the beginning", keep, func(u *url.URL) string { return beginning(u.EscapedPath()) }},
		{"backslashes are slashes, compare the beginning", policy.Paths{}, func(u *url.URL) string { return beginning(backward(u.Path)) }},
		{"dots pop empty segments, compare the beginning", slashes, func(u *url.URL) string {
			return beginning("/" + strings.Join(popped(strings.Split(u.Path, "/")), "/"))
		}},
		{"decode twice, compare the beginning", policy.Paths{}, func(u *url.URL) string { return beginning(twice(u.EscapedPath())) }},
		{"backslashes are slashes", policy.Paths{}, func(u *url.URL) string { return cleaned(backward(u.Path)) }},
		{"decode twice", policy.Paths{}, func(u *url.URL) string { return cleaned(twice(u.EscapedPath())) }},
		{"decode twice, split", policy.Paths{}, func(u *url.URL) string { return first(strings.Split(twice(u.EscapedPath()), "/")) }},
		{"a hop that decodes, then one that cleans", policy.Paths{}, func(u *url.URL) string { return cleaned(path.Clean("/" + u.Path)) }},
	}
}

// guarded returns policies of several kinds. Some refuse requests below /api; the others allow only requests below /public.
func guarded(tb testing.TB, paths policy.Paths) map[string]*httplimit.Decider {
	tb.Helper()
	below := func(name string) policy.Match { return policy.Match{Paths: []string{"/" + name + "/**"}} }
	clock := int64(1e6)
	made := map[string]*httplimit.Decider{}
	for name, o := range map[string]policy.Options{
		"a rule on /api":                {Rules: []policy.Rule{{Name: "r", Match: below("api"), Always: true}}},
		"an exception of /public":       {Rules: []policy.Rule{{Name: "r", Match: policy.Match{Unless: []policy.Match{below("public")}}, Always: true}}},
		"a bypass of /public":           {Rules: []policy.Rule{{Name: "r", Always: true}}, Classes: []policy.Class{{Name: "c", Match: below("public"), Bypass: true}}},
		"a default without /public":     {Rules: []policy.Rule{{Name: "r", Match: below("public"), Key: []policy.Part{policy.Global()}, Limits: hourly(1 << 30)}}, Default: policy.Deny},
		"an exception within, of /api/": {Rules: []policy.Rule{{Name: "r", Match: policy.Match{Unless: []policy.Match{{Unless: []policy.Match{below("api")}}}}, Always: true}}},
	} {
		o.Paths = paths
		made[name] = governed(tb, storeAt(tb, &clock), httplimit.PolicyOptions{}, o)
	}
	return made
}

// checkRoutes fails the test if a target reaches a handler that the rules protect.
func checkRoutes(t *testing.T, target string, routers []router, policies map[policy.Paths]map[string]*httplimit.Decider) (reached int) {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return 0
	}
	for _, route := range routers {
		found := route.find(u)
		if found == "" {
			continue
		}
		reached++
		// The settings for the service, and the defaults, which are for all services.
		for _, paths := range slices.Compact([]policy.Paths{route.paths, {}}) {
			for name, d := range policies[paths] {
				onlyAPI := strings.Contains(name, "/api")
				r := &http.Request{Method: http.MethodGet, URL: u, Host: "a.example", RemoteAddr: "192.0.2.1:1"}
				if v := d.Decide(r.WithContext(t.Context())); v.Allowed() && (onlyAPI && found == "api" || !onlyAPI && found != "public") {
					t.Errorf("%s: %q is allowed by %s with %+v, and reaches %q", route.name, target, name, paths, found)
				}
			}
		}
	}
	return reached
}

func policiesOf(tb testing.TB, routers []router) map[policy.Paths]map[string]*httplimit.Decider {
	tb.Helper()
	all := map[policy.Paths]map[string]*httplimit.Decider{}
	for _, r := range routers {
		if all[r.paths] == nil {
			all[r.paths] = guarded(tb, r.paths)
		}
	}
	return all
}

// However a target is written, a rule matches every request that reaches its handlers.
// An exception excepts only requests that reach its own handlers.
func TestRulesMatchWhatReachesTheirHandlers(t *testing.T) {
	all := routers()
	policies := policiesOf(t, all)
	rnd := rand.New(rand.NewPCG(8, 13))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	reached, allowed := 0, 0
	targets := soak.Times(t, 400)
	for range targets {
		var target strings.Builder
		for range 1 + rnd.IntN(6) {
			target.WriteString(pick("/", "/", "/", "/", "//", "%2f"))
			target.WriteString(pick("api", "public", "%61pi", "x", ".", "..", "..", "%2e%2e", "%2E.", "%2e", "..%2f", "..%5c", "%252e%252e%252f", "a%5c", "a;b", "...", ""))
		}
		if text := "/" + strings.TrimPrefix(target.String(), "/"); len(text) > 0 {
			reached += checkRoutes(t, text, all, policies)
		}
	}
	for target, want := range map[string]bool{"/api/x": false, "/public/x": true, "/public/%2e/x/": true, "/public//x": true, "/public%2fx": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
		for name, d := range policies[policy.Paths{}] {
			if v := d.Decide(r); v.Allowed() == want {
				allowed++
			} else if target != "/public%2fx" {
				t.Errorf("%s: a rule does not match %s as its handler does: %s", name, target, v.String())
			}
		}
	}
	if reached < targets*5/2 || allowed < 20 {
		t.Errorf("reached %d handlers, and %d were decided correctly", reached, allowed)
	}
}

// FuzzRoutes tries arbitrary targets.
func FuzzRoutes(f *testing.F) {
	for _, target := range rawCorpus()[:200] {
		f.Add(target)
	}
	for _, target := range []string{"/api/%2e%2e/x", "/public/%2e%2e/api", "/api//../x", "/x/..;/api", "/api/..%2f..%2fpublic"} {
		f.Add(target)
	}
	all := routers()
	policies := policiesOf(f, all)
	f.Fuzz(func(t *testing.T, target string) { checkRoutes(t, target, all, policies) })
}
