package access

import (
	"cmp"
	"net/http"
	"strings"
)

// Scope is what a token may do: one or several of the scopes below.
type Scope uint8

// The scopes.
const (
	Decide  Scope = 1 << iota // decide and charge
	Read                      // see numbers, and keys without their values
	Operate                   // change keys, and see their values; it implies read
)

// every is the scopes of the admin token. A call that needs it takes any token.
const every = Decide | Read | Operate

// String returns the names of the scopes, such as "decide or read".
func (s Scope) String() string {
	var names []string
	for i, name := range [...]string{"decide", "read", "operate"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// Calls are calls by their method and path, such as "POST /v1/check", and the scopes of which their token needs one.
type Calls struct {
	Needs Scope
	Calls []string
}

// AllCalls are the calls of the decision API and of the admin listener. Nobody changes them.
func AllCalls() []Calls { return allCalls }

var allCalls = []Calls{
	{Decide, []string{
		"POST /v1/check", "POST /v1/debit", "POST /v1/reserve", "POST /v1/settle", "POST /v1/cancel",
		"POST /v1/acquire", "POST /v1/renew", "POST /v1/release", "POST /json",
	}},
	{Decide | Read, []string{"POST /v1/peek", "GET /v1/usage"}},
	{Read, []string{
		"GET /v1/keys", "GET /v1/pressure", "GET /v1/pressure/{rule}", "POST /v1/explain",
		"GET /v1/live", "GET /v1/rules", "GET /v1/history", "GET /metrics",
	}},
	{Operate, []string{
		"GET /v1/hybrid", "GET /v1/bans", "POST /v1/bans", "DELETE /v1/bans",
		"GET /v1/overrides", "PUT /v1/overrides", "DELETE /v1/overrides", "POST /v1/reset", "POST /v1/grant", "DELETE /v1/grant",
		"POST /ui/reveal", "POST /ui/reset", "POST /ui/unban", "POST /ui/override", "POST /ui/unset",
	}},
	{every, []string{"GET /openapi.yaml", "GET /"}},
}

// needed has the scopes of each call by its path and its method.
var needed = func() map[string]map[string]Scope {
	needed := map[string]map[string]Scope{}
	for _, of := range allCalls {
		for _, call := range of.Calls {
			method, path, _ := strings.Cut(call, " ")
			if needed[path] == nil {
				needed[path] = map[string]Scope{}
			}
			needed[path][method] = of.Needs
		}
	}
	return needed
}()

// needs returns the scopes of which a request needs one. A method that a path does not take is refused later, so it
// needs what the path needs. Other paths need a scope that no token has by mistake.
func needs(q *http.Request, other Scope) Scope {
	method, path, found := q.Method, q.URL.Path, Scope(0)
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if rule, ok := strings.CutPrefix(path, "/v1/pressure/"); ok && rule != "" {
		path = "/v1/pressure/{rule}"
	}
	if scope, known := needed[path][method]; known {
		return scope
	}
	for _, scope := range needed[path] {
		found |= scope
	}
	return cmp.Or(found, other)
}

// ScopeError reports a token that lacks the scope of a call.
type ScopeError struct{ Needs Scope }

func (e *ScopeError) Error() string { return "the token lacks the scope " + e.Needs.String() }

// Remedy says which token to send.
func (e *ScopeError) Remedy() string {
	switch {
	case e.Needs&Decide != 0 && e.Needs&Read != 0:
		return "send the token of the API, the read token or the admin token"
	case e.Needs&Decide != 0:
		return "send the token of the API, or the admin token"
	case e.Needs&Read != 0:
		return "send the read token, or the admin token"
	default:
		return "send the admin token"
	}
}
