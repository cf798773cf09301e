package access

import (
	"errors"
	"net/http"
)

// Audience is the kind of callers that a listener is for.
type Audience uint8

// The kinds of callers.
const (
	Everybody Audience = iota
	Operators          // as the section admin allows
	Programs           // as the section api allows
	Proxies            // trusted_proxies, which the edge recognizes by their address
)

// operatorListener is the name of the listener for operators, whose token is the admin token.
const operatorListener = "admin"

// Secrets are the tokens of a server; an empty one is none.
type Secrets struct {
	Admin string // decides, reads and operates
	API   string // decides
	Read  string // reads
}

// tokens returns the tokens with their scopes.
func (s *Secrets) tokens() []Token {
	return []Token{{s.Admin, every}, {s.API, Decide}, {s.Read, Read}}
}

// Callers make the rules of listeners. Make it with NewCallers.
type Callers struct {
	tokens   *Tokens // nil if there are none
	given    Secrets // at the start
	open     bool
	refusals func() func(*http.Request, string)
}

// NewCallers returns the callers that tokens admit. With open, programs need no token. The function refusals returns an
// OnRefused for each listener.
func NewCallers(s Secrets, open bool, refusals func() func(*http.Request, string)) *Callers {
	return &Callers{tokens: newTokens(s.tokens()...), given: s, open: open, refusals: refusals}
}

// Set replaces the tokens.
func (c *Callers) Set(s Secrets) error {
	if (s.Admin == "") != (c.given.Admin == "") || (s.API == "") != (c.given.API == "") || (s.Read == "") != (c.given.Read == "") {
		return errors.New("a token was added or removed, which needs a restart")
	}
	if c.tokens != nil {
		c.tokens.Set(s.tokens()...)
	}
	return nil
}

// neededBy returns the tokens if a listener needs one.
func (c *Callers) neededBy(token string) *Tokens {
	if token == "" {
		return nil
	}
	return c.tokens
}

// Rules returns the rules of a listener, nil if all that reach it are admitted or the edge decides by their address.
func (c *Callers) Rules(listener string, a Audience, certificates bool) *Rules {
	r := &Rules{Name: listener, Certificates: certificates}
	switch a {
	case Operators:
		r.Tokens = c.neededBy(c.given.Admin)
		r.Remedy = "set admin.token_file in the configuration or SLUICE_ADMIN_TOKEN in the environment, demand client certificates with listen." + listener + ".tls.client_ca"
	case Programs:
		r.Tokens, r.Open = c.neededBy(c.given.API), c.open
		r.Remedy = "set api.token_file in the configuration or SLUICE_API_TOKEN in the environment, " +
			"demand client certificates with listen." + listener + ".tls.client_ca, set api.open to true if everybody may get decisions"
	case Everybody, Proxies:
		return nil
	}
	r.OnRefused = c.refusals()
	return r
}

// Authorize returns why a request at another listener than the admin listener may not make a call for operators: a
// *ScopeError if its token is another one.
func (c *Callers) Authorize(q *http.Request) error {
	needed, name := needs(q, Operate), operatorListener
	switch {
	case c.given.Admin == "" && (c.given.Read == "" || needed&Read == 0):
		return errors.New("use the admin listener, or give the server an admin token to allow it here too")
	case c.given.Read != "" && needed&Read != 0:
		name = "read or the admin"
	}
	return authorize(q, name, c.tokens, needed)
}

// Reveals reports whether a caller that was admitted may see the values of keys: its token may operate, or it needed none.
func (c *Callers) Reveals(q *http.Request) bool {
	given := bearer(q)
	return c.tokens == nil || c.tokens.scopesOf(given)&Operate != 0 || c.given.Admin == "" && c.tokens.scopesOf(given) == 0
}
