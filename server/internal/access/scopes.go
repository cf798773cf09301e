package access

import (
	"net/http"
	"slices"
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

// Call is a call and the scopes of which its token needs one.
type Call struct {
	Method, Path string
	Needs        Scope
}

// Calls are the calls of the decision API and of the admin listener, each with the scopes of which it needs one.
func Calls() []Call { return slices.Clone(calls) }

var calls = []Call{
	{http.MethodPost, "/v1/check", Decide},
	{http.MethodPost, "/v1/debit", Decide},
	{http.MethodPost, "/v1/reserve", Decide},
	{http.MethodPost, "/v1/settle", Decide},
	{http.MethodPost, "/v1/cancel", Decide},
	{http.MethodPost, "/v1/acquire", Decide},
	{http.MethodPost, "/v1/renew", Decide},
	{http.MethodPost, "/v1/release", Decide},
	{http.MethodPost, "/json", Decide},
	{http.MethodPost, "/v1/peek", Decide | Read},
	{http.MethodGet, "/v1/usage", Decide | Read},
	{http.MethodGet, "/v1/keys", Read},
	{http.MethodGet, "/v1/pressure", Read},
	{http.MethodGet, "/v1/pressure/{rule}", Read},
	{http.MethodPost, "/v1/explain", Read},
	{http.MethodGet, "/v1/live", Read},
	{http.MethodGet, "/v1/rules", Read},
	{http.MethodGet, "/v1/history", Read},
	{http.MethodGet, "/metrics", Read},
	{http.MethodGet, "/v1/hybrid", Operate},
	{http.MethodGet, "/v1/bans", Operate},
	{http.MethodPost, "/v1/bans", Operate},
	{http.MethodDelete, "/v1/bans", Operate},
	{http.MethodGet, "/v1/overrides", Operate},
	{http.MethodPut, "/v1/overrides", Operate},
	{http.MethodDelete, "/v1/overrides", Operate},
	{http.MethodPost, "/v1/reset", Operate},
	{http.MethodPost, "/v1/grant", Operate},
	{http.MethodDelete, "/v1/grant", Operate},
	{http.MethodPost, "/ui/reveal", Operate},
	{http.MethodPost, "/ui/reset", Operate},
	{http.MethodPost, "/ui/unban", Operate},
	{http.MethodPost, "/ui/override", Operate},
	{http.MethodPost, "/ui/unset", Operate},
	{http.MethodGet, "/openapi.yaml", every},
	{http.MethodGet, "/", every},
}

// needs returns the scopes of which a request needs one. A method that a path does not take is refused later, so it needs what the
// path needs. Other paths need a scope that no token has by mistake.
func needs(q *http.Request, other Scope) Scope {
	method, path, found := q.Method, q.URL.Path, Scope(0)
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if rule, ok := strings.CutPrefix(path, "/v1/pressure/"); ok && rule != "" {
		path = "/v1/pressure/{rule}"
	}
	for i := range calls {
		c := &calls[i]
		switch {
		case c.Path != path:
		case c.Method == method:
			return c.Needs
		default:
			found |= c.Needs
		}
	}
	if found != 0 {
		return found
	}
	return other
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
