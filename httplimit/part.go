package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"

	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// Missing is what happens to a request that lacks a part of its key.
type Missing = policy.Missing

// The choices for a missing part. If a request lacks several parts, MissingDeny wins over
// MissingSkip, and both win over MissingShared.
const (
	// MissingShared gives all requests that lack the part one budget, which no value
	// of the part shares.
	MissingShared = policy.MissingShared
	// MissingSkip lets the request pass and does not count it. Clients that choose whether to send the
	// part choose whether they are limited.
	MissingSkip = policy.MissingSkip
	// MissingDeny refuses the request, with status 400.
	MissingDeny = policy.MissingDeny
)

// Part is one part of a key: a value of the request that distinguishes clients, and what to do
// without it. An empty value is missing. Make a Part with PeerIP, ClientIP.Part, Header and so
// on, or with PartFunc.
type Part struct {
	part policy.Part
	err  error
}

// newPart returns a part whose value is found in the request itself.
func newPart(source policy.Source, name string, missing Missing, value func(r *http.Request) (string, bool)) Part {
	return Part{part: policy.Part{Source: source, Name: name, OnMissing: missing, Value: func(a *policy.Attributes) (string, bool) {
		if r := requestOf(a); r != nil {
			return value(r)
		}
		return "", false
	}}}
}

// needing returns the part with an error if its name is empty.
func (p Part) needing(what string) Part {
	if p.part.Name == "" {
		p.err = errors.New(what)
	}
	return p
}

func (p Part) made() (policy.Part, error) { return p.part, p.err }

// PartFunc is a part that a function finds. The part is missing if the function returns false or an
// empty value. The name is for the answer to requests that lack the part.
func PartFunc(name string, value func(r *http.Request) (string, bool), missing Missing) Part {
	if value == nil {
		return Part{err: errors.New("PartFunc has no function; give one that finds the part in a request")}
	}
	return newPart(policy.FromFunction, name, missing, value).needing("PartFunc has no name; give one for messages")
}

// Header is the value of a header. A request with several lines of it is refused, see IfRepeated.
// Authorization is in one spelling: the case of its scheme and the number of spaces do not count. Host is in one spelling
// too: see policy.CleanHost.
func Header(name string, missing Missing) Part {
	key := textproto.CanonicalMIMEHeaderKey(name)
	if key == "Host" { // which net/http does not keep among the headers
		return newPart(policy.FromHeader, key, missing, func(r *http.Request) (string, bool) { return policy.CleanHost(r.Host), true })
	}
	return Part{part: policy.Header(key).IfMissing(missing)}.needing("Header has no name; give the name of a header")
}

// Cookie is the value of a cookie, without quotes and spaces around it. A request with several cookies of the name is
// refused, see IfRepeated.
func Cookie(name string, missing Missing) Part {
	return Part{part: policy.Cookie(name).IfMissing(missing)}.needing("Cookie has no name; give the name of a cookie")
}

// Query is the value of a query parameter. A request with several parameters of the name is refused, see
// IfRepeated.
func Query(name string, missing Missing) Part {
	return Part{part: policy.Query(name).IfMissing(missing)}.needing("Query has no name; give the name of a query parameter")
}

// IfRepeated returns the part with another choice for requests with several values of it: count by the first
// or the last value if the service reads that one, or share the budget of requests without the part.
func (p Part) IfRepeated(r policy.Repeated) Part {
	p.part.OnRepeated = r
	return p
}

// Method is the request's method. All methods that are not registered count as one, "other".
func Method() Part {
	return newPart(policy.FromMethod, "", MissingShared, func(r *http.Request) (string, bool) {
		if r.Method == "" {
			return http.MethodGet, true
		}
		return spelling.Method(r.Method), true
	})
}

// Path is the path, cleaned as policy.Paths.Clean does. "%2F" is a slash, as in r.URL.Path.
func Path() Part {
	return newPart(policy.FromPath, "", MissingShared, func(r *http.Request) (string, bool) {
		if r.URL == nil {
			return "/", true
		}
		return policy.Paths{EncodedSlash: policy.SlashDecode}.Clean(r.URL.EscapedPath()), true
	})
}

// Host is the host that the request is for, cleaned as policy.CleanHost does.
func Host(missing Missing) Part {
	return newPart(policy.FromHost, "", missing, func(r *http.Request) (string, bool) { return policy.CleanHost(r.Host), true })
}

// PathValue is the segment of the path that the pattern of a ServeMux calls {name}. The
// middleware must be inside the mux for it, around the handler.
func PathValue(name string, missing Missing) Part {
	return newPart(policy.FromParam, name, missing, func(r *http.Request) (string, bool) { return r.PathValue(name), true }).
		needing("PathValue has no name; give the name of a wildcard of the pattern")
}

// Pattern is the pattern of the http.ServeMux that the request matched, such as
// "GET /users/{id}": one key for each route, whatever its wildcards match. The middleware
// must be inside the mux for it, around the handler; around the mux, use PatternOf.
func Pattern(missing Missing) Part {
	return PartFunc("pattern", func(r *http.Request) (string, bool) { return r.Pattern, true }, missing)
}

// PatternOf is the best match for the request among some patterns. They are written as for
// http.ServeMux, but no mux is needed. All spellings of a path that a mux redirects to the clean path
// have the pattern of the clean path. A request that matches no pattern lacks the part.
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

// Constant is the same for all requests. As the only part it makes one budget for all clients.
func Constant(text string) Part {
	return Part{part: policy.Constant(text)}.needing("Constant is empty; give a text")
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
