// Package access decides who may call a listener that is not for everybody: the admin listener and the decision
// API have the same rules. It has no pages of its own.
package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Rules are the conditions under which a listener answers. With the zero Rules it answers only programs of this
// machine that are not web pages of a foreign name.
type Rules struct {
	// Name is the name of the listener, such as "admin".
	Name string
	// Tokens are the bearer tokens of the listener. Default: none, so callers need no token.
	Tokens *Tokens
	// Certificates means that the listener takes only connections with a valid client certificate.
	Certificates bool
	// Open answers everybody who reaches the listener.
	Open bool
	// OnRefused is called with each request that is refused, and why. Optional.
	OnRefused func(q *http.Request, why string)
	// Remedy names the settings that would let the listener be at any address.
	Remedy string
}

// closed reports whether only callers that can prove who they are get an answer.
func (r *Rules) closed() bool { return r.NeedsToken() || r.Certificates }

// CheckAddress returns why a listener with these rules may not be at an address: other machines would reach it,
// and nothing would stop them. The error names the address as shown.
func (r *Rules) CheckAddress(addr net.Addr, shown string) error {
	if r.closed() || r.Open || Loopback(addr) {
		return nil
	}
	return fmt.Errorf("%s: %s can be reached from other machines, and there is no token; %s, or listen on 127.0.0.1", r.Name, shown, r.Remedy)
}

// Loopback reports whether only this machine reaches an address, as it does a Unix socket.
func Loopback(addr net.Addr) bool {
	if _, ok := addr.(*net.UnixAddr); ok {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// Describe describes in a few words who gets an answer at an address.
func (r *Rules) Describe(addr net.Addr) string {
	switch {
	case r.NeedsToken() && r.Certificates:
		return "with a token and a client certificate"
	case r.NeedsToken():
		return "with a token"
	case r.Certificates:
		return "with a client certificate"
	case r.Open && !Loopback(addr):
		return "open to everybody who reaches it"
	default:
		return ""
	}
}

// Protect lets requests pass that the rules allow. It also refuses requests that a web page of another origin
// makes, whatever they prove, because a browser may add a certificate by itself.
func (r *Rules) Protect(next http.Handler) http.Handler { return r.protect(next, r.NeedsToken()) }

// ProtectStatic is Protect for files without data. They need no token, because a browser sends none with the address of
// a page.
func (r *Rules) ProtectStatic(next http.Handler) http.Handler { return r.protect(next, false) }

// protect is Protect, with or without the token.
func (r *Rules) protect(next http.Handler, needsToken bool) http.Handler {
	foreign, checksHost := http.NewCrossOriginProtection(), !r.closed() && !r.Open
	refuse := func(w http.ResponseWriter, q *http.Request, status int, title, detail string) {
		if r.OnRefused != nil {
			r.OnRefused(q, title)
		}
		refuse(w, status, title, detail)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch err := foreign.Check(q); {
		case err != nil:
			refuse(w, q, http.StatusForbidden, "Foreign origin", "a web page of another origin may not make this call")
			return
		case checksHost && !localHost(q.Host):
			refuse(w, q, http.StatusForbidden, "Foreign host", "call the "+r.Name+" listener by an address such as 127.0.0.1, or by the name localhost")
			return
		}
		if needsToken {
			other := Decide
			if r.Name == operatorListener {
				other = Operate
			}
			var lacks *ScopeError
			switch err := authorize(q, r.Name, r.Tokens, needs(q, other)); {
			case errors.As(err, &lacks):
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="sluice %s", error="insufficient_scope"`, r.Name))
				refuse(w, q, http.StatusForbidden, "Missing scope", err.Error()+"; "+lacks.Remedy())
				return
			case err != nil:
				w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q", "sluice "+r.Name))
				refuse(w, q, http.StatusUnauthorized, "Not authorized", err.Error())
				return
			}
		}
		next.ServeHTTP(w, q)
	})
}

// NeedsToken reports whether a caller must prove itself with a token.
func (r *Rules) NeedsToken() bool { return r.Tokens != nil }

// Verify reports whether a token is one of the listener's, and whether it may decide. It is for protocols other than
// HTTP. A listener that needs no token accepts any.
func (r *Rules) Verify(token string) (known, decides bool) {
	if r.Tokens == nil {
		return true, true
	}
	scopes := r.Tokens.scopesOf(token)
	return scopes != 0, scopes&Decide != 0
}

// bearer returns the token of a request; empty without one.
func bearer(q *http.Request) string {
	scheme, given, ok := strings.Cut(q.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(given)
}

// authorize returns an error for a request without a token that has one of the scopes: a *ScopeError if it has another
// token. The name is of the token that callers usually send.
func authorize(q *http.Request, name string, tokens *Tokens, needs Scope) error {
	given := bearer(q)
	if given == "" {
		return fmt.Errorf("this call needs the %s token: send it as Authorization: Bearer TOKEN", name)
	}
	switch scopes := tokens.scopesOf(given); {
	case scopes == 0:
		return fmt.Errorf("the token is not the %s token", name)
	case scopes&needs == 0:
		return &ScopeError{needs}
	}
	return nil
}

// localHost reports whether a Host header is an address or localhost. A web page whose name resolves to this
// machine sends its own name.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// refuse answers with a problem document, as the decision API does.
func refuse(w http.ResponseWriter, status int, title, detail string) {
	text, err := json.Marshal(map[string]any{"type": "about:blank", "title": title, "status": status, "detail": detail})
	if err != nil {
		text = nil // these values are always valid
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
