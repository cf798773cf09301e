// Package access decides who may call a listener that is not for everybody: the admin listener and the decision
// API have the same rules. It has no pages of its own.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
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
	// Tokens are bearer tokens, each of which is enough. Without one, the listener needs no token.
	Tokens []string
	// Certificates means that the listener takes only connections with a valid client certificate.
	Certificates bool
	// Open answers everybody who reaches the listener.
	Open bool
	// Remedy names the settings that would let the listener be at any address.
	Remedy string
}

// closed reports whether only callers that can prove who they are get an answer.
func (r *Rules) closed() bool { return len(r.Tokens) > 0 || r.Certificates }

// CheckAddress returns why a listener with these rules may not be at an address: other machines would reach it,
// and nothing would stop them. The error names the address as shown.
func (r *Rules) CheckAddress(addr net.Addr, shown string) error {
	if r.closed() || r.Open || Loopback(addr) {
		return nil
	}
	return fmt.Errorf("%s: %s can be reached from other machines, and there is no token; %s, or listen on 127.0.0.1", r.Name, shown, r.Remedy)
}

// Loopback reports whether only this machine reaches an address.
func Loopback(addr net.Addr) bool {
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// Describe describes in a few words who gets an answer at an address.
func (r *Rules) Describe(addr net.Addr) string {
	switch {
	case len(r.Tokens) > 0 && r.Certificates:
		return "with a token and a client certificate"
	case len(r.Tokens) > 0:
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
func (r *Rules) Protect(next http.Handler) http.Handler {
	foreign, tokens, checksHost := http.NewCrossOriginProtection(), digests(r.Tokens), !r.closed() && !r.Open
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch err := foreign.Check(q); {
		case err != nil:
			refuse(w, http.StatusForbidden, "Foreign origin", "a web page of another origin may not make this call")
			return
		case checksHost && !localHost(q.Host):
			refuse(w, http.StatusForbidden, "Foreign host", "call the "+r.Name+" listener by an address such as 127.0.0.1, or by the name localhost")
			return
		}
		if len(tokens) > 0 {
			if err := authorize(q, r.Name, tokens); err != nil {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q", "sluice "+r.Name))
				refuse(w, http.StatusUnauthorized, "Not authorized", err.Error())
				return
			}
		}
		next.ServeHTTP(w, q)
	})
}

// Authorizer returns a function that returns an error for a request without the token of that name.
func Authorizer(name, token string) func(*http.Request) error {
	tokens := digests([]string{token})
	return func(r *http.Request) error { return authorize(r, name, tokens) }
}

// NeedsToken reports whether a caller must prove itself with a token.
func (r *Rules) NeedsToken() bool { return len(r.Tokens) > 0 }

// Verifier returns a function that reports whether a token is one of the listener's. It is for protocols other
// than HTTP.
func (r *Rules) Verifier() func(token string) bool {
	tokens := digests(r.Tokens)
	return func(token string) bool { return verify(token, tokens) }
}

// digest is a hash of a token. Hashes have equal lengths, so comparing two takes the same time for every guess.
type digest = [sha256.Size]byte

func digests(tokens []string) []digest {
	var all []digest
	for _, token := range tokens {
		all = append(all, sha256.Sum256([]byte(token)))
	}
	return all
}

func authorize(r *http.Request, name string, tokens []digest) error {
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return fmt.Errorf("this call needs the %s token: send it as Authorization: Bearer TOKEN", name)
	}
	if !verify(strings.TrimSpace(given), tokens) {
		return fmt.Errorf("the token is not the %s token", name)
	}
	return nil
}

// verify reports whether a token is one of several. The time it takes does not depend on the token.
func verify(token string, tokens []digest) bool {
	guess, right := sha256.Sum256([]byte(token)), 0
	for i := range tokens {
		right |= subtle.ConstantTimeCompare(guess[:], tokens[i][:])
	}
	return right == 1
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
	text, err := json.Marshal(map[string]any{"title": title, "status": status, "detail": detail})
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
