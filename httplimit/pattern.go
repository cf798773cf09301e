package httplimit

import (
	"fmt"
	"net/http"
	"net/url"
)

// Pattern is the pattern of the http.ServeMux that the request matched, such as
// "GET /users/{id}": one key for each route, whatever is in its wildcards. The middleware
// must be inside the mux for it, around the handler; around the mux, use PatternOf.
func Pattern(missing Missing) Part {
	return PartFunc("pattern", func(r *http.Request) (string, bool) { return r.Pattern, true }, missing)
}

// PatternOf is the one of the patterns, written as for http.ServeMux, that fits the
// request best. It needs no mux. All spellings of a path that a mux redirects to the
// clean one have its pattern. A request that none fits lacks the part.
func PatternOf(missing Missing, patterns ...string) Part {
	table := &patternTable{mux: http.NewServeMux(), known: make(map[string]bool)}
	p := PartFunc("pattern", table.find, missing)
	if len(patterns) == 0 {
		p.err = fmt.Errorf("PatternOf has no pattern; give one such as %q", "/users/{id}")
	}
	for _, text := range patterns {
		if err := table.add(text); err != nil {
			p.err = fmt.Errorf("PatternOf: pattern %q: %w", text, err)
			break
		}
	}
	return p
}

type patternTable struct {
	mux   *http.ServeMux
	known map[string]bool
}

// add registers a pattern, about which the mux complains by a panic.
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

// find returns the pattern that fits. When the mux would redirect it gives the
// path to go to, or its pattern; only a pattern is a value.
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
