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

// Callers make the rules of listeners. Make it with NewCallers.
type Callers struct {
	operators *Tokens // nil without a token
	programs  *Tokens // nil without a token; the admin token is one of them, because operators can do more
	open      bool
	refusals  func() func(*http.Request, string)
}

// NewCallers returns the callers that the admin token and the token of the decision API admit; an empty token is none. With open,
// programs need no token. The function refusals returns an OnRefused for each listener.
func NewCallers(admin, api string, open bool, refusals func() func(*http.Request, string)) *Callers {
	c := &Callers{operators: NewTokens(admin), open: open, refusals: refusals}
	if api != "" {
		c.programs = NewTokens(api, admin)
	}
	return c
}

// Set replaces the tokens.
func (c *Callers) Set(admin, api string) error {
	if (admin == "") != (c.operators == nil) || (api == "") != (c.programs == nil) {
		return errors.New("a token was added or removed, which needs a restart")
	}
	if c.operators != nil {
		c.operators.Set(admin)
	}
	if c.programs != nil {
		c.programs.Set(api, admin)
	}
	return nil
}

// Rules returns the rules of a listener, nil if all that reach it are admitted or the edge decides by their address.
func (c *Callers) Rules(listener string, a Audience, certificates bool) *Rules {
	r := &Rules{Name: listener, Certificates: certificates}
	switch a {
	case Operators:
		r.Tokens = c.operators
		r.Remedy = "set admin.token_file in the configuration or SLUICE_ADMIN_TOKEN in the environment, demand client certificates with listen." + listener + ".tls.client_ca"
	case Programs:
		r.Tokens, r.Open = c.programs, c.open
		r.Remedy = "set api.token_file in the configuration or SLUICE_API_TOKEN in the environment, " +
			"demand client certificates with listen." + listener + ".tls.client_ca, set api.open to true if everybody may get decisions"
	case Everybody, Proxies:
		return nil
	}
	r.OnRefused = c.refusals()
	return r
}

// Authorize returns why a request at another listener than the admin listener may not change state.
func (c *Callers) Authorize(r *http.Request) error {
	if c.operators == nil {
		return errors.New("use the admin listener, or give the server an admin token to allow it here too")
	}
	return authorize(r, operatorListener, c.operators)
}
