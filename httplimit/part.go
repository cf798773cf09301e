package httplimit

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"

	"github.com/sluicehq/sluice/internal/keyed"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// edge finds the parts of keys in requests. The client is the peer.
func edge(ip *ClientIP) *keyed.Edge[*http.Request] {
	return &keyed.Edge[*http.Request]{Name: "httplimit", RequestOf: requestOf, Find: func(p *policy.Part) func(*http.Request) (string, bool) {
		switch p.Source {
		case source.ClientIP:
			return ip.part(p)
		case source.Method:
			return methodOf
		case source.Path:
			return pathOf
		case source.Param:
			name := p.Name
			return func(r *http.Request) (string, bool) { return r.PathValue(name), true }
		case source.Route:
			return func(r *http.Request) (string, bool) { return r.Pattern, true }
		case source.Host:
			return hostOf
		case policy.FromHeader:
			if textproto.CanonicalMIMEHeaderKey(p.Name) == "Host" { // which net/http does not keep among the headers
				return hostOf
			}
		}
		return nil
	}}
}

// Function is a part of a key that a function finds in the request. The part is missing if the function returns
// false or an empty value. The name is for the answer to requests that lack the part.
func Function(name string, value func(r *http.Request) (string, bool)) policy.Part {
	return edge(nil).Function(name, value)
}

// RouteOf is a part of a key: the best match for the request among some patterns. They are written as for
// http.ServeMux, but no mux is needed. All spellings of a path that a mux redirects to the clean path have the pattern
// of the clean path. A request that matches no pattern lacks the part. RouteOf returns an error for a pattern that a
// mux refuses, and without patterns.
func RouteOf(patterns ...string) (policy.Part, error) {
	if len(patterns) == 0 {
		return policy.Part{}, fmt.Errorf("httplimit: RouteOf has no pattern; give one such as %q", "/users/{id}")
	}
	table := &patternTable{mux: http.NewServeMux(), known: make(map[string]bool)}
	for _, text := range patterns {
		if err := table.add(text); err != nil {
			return policy.Part{}, fmt.Errorf("httplimit: RouteOf: pattern %q: %w", text, err)
		}
	}
	p := Function("", table.find)
	p.Source = source.Route
	return p, nil
}

// hostOf, methodOf and pathOf return values of a request in their one spelling.
func hostOf(r *http.Request) (string, bool) { return spelling.Host(r.Host), true }

func methodOf(r *http.Request) (string, bool) {
	if r.Method == "" {
		return http.MethodGet, true
	}
	return spelling.Method(r.Method), true
}

func pathOf(r *http.Request) (string, bool) {
	if r.URL == nil {
		return "/", true
	}
	return policy.Paths{EncodedSlash: policy.SlashDecode}.Clean(r.URL.EscapedPath()), true
}

// patternTable finds the pattern that matches a request.
type patternTable struct {
	mux   *http.ServeMux
	known map[string]bool
}

// add registers a pattern. The mux panics if it refuses the pattern.
func (t *patternTable) add(text string) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	t.mux.Handle(text, http.NotFoundHandler())
	t.known[text] = true
	return nil
}

// find returns the pattern that matches. When the mux would redirect, it returns the path of
// the redirection or its pattern; only a pattern is a value.
func (t *patternTable) find(r *http.Request) (string, bool) {
	if r.URL == nil {
		return "", false
	}
	_, pattern := t.mux.Handler(r)
	if t.known[pattern] {
		return pattern, true
	}
	if pattern == "" {
		return "", false
	}
	again := &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: pattern}}
	_, pattern = t.mux.Handler(again)
	return pattern, t.known[pattern]
}
