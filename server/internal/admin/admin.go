// Package admin serves the pages for operators, on a listener of its own. They are the probes of
// life and readiness, the metrics, and the calls that change state.
package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Options configure an admin handler.
type Options struct {
	// Token is the bearer token that all pages except the probes need. Without a token the listener must be
	// on loopback; see CheckAddress.
	Token string
	// Ready returns why the program should get no new requests; nil if it should.
	Ready func() error
	// Detail returns lines that are added to the answer of the readiness probe. Everybody who reaches the
	// listener can read them. May be nil.
	Detail func() string
	// Pages are further handlers by their path, such as "/metrics".
	Pages map[string]http.Handler
}

// CheckAddress returns why a listener may not serve the admin pages: without a token, only this machine may
// reach them.
func CheckAddress(addr net.Addr, token string) error {
	if token != "" {
		return nil
	}
	if ap, err := netip.ParseAddrPort(addr.String()); err == nil && ap.Addr().Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("admin: %s can be reached from other machines, and there is no token; "+
		"set admin.token_file in the configuration or SLUICE_ADMIN_TOKEN in the environment, or listen on 127.0.0.1", addr)
}

// New returns the handler of the admin listener.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	ready := func(w http.ResponseWriter, _ *http.Request) {
		status, text := http.StatusOK, "ok"
		if err := o.Ready(); err != nil {
			status, text = http.StatusServiceUnavailable, err.Error()
		}
		if o.Detail != nil {
			if more := o.Detail(); more != "" {
				text += "\n" + more
			}
		}
		answer(w, status, text)
	}
	mux.HandleFunc("GET /readyz", ready)
	mux.HandleFunc("GET /healthz", ready)
	mux.HandleFunc("GET /healthcheck", ready)

	guarded := http.NewServeMux()
	for path, page := range o.Pages {
		guarded.Handle(path, page)
	}
	mux.Handle("/", protect(o.Token, guarded))
	return http.NewCrossOriginProtection().Handler(mux)
}

func answer(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The prober may be gone.
	_, _ = fmt.Fprintln(w, text)
}

// protect lets only requests with the token pass. Without a token, it checks the host instead: it
// must be a name of this machine that no web page can have.
func protect(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token == "" {
			if !localHost(r.Host) {
				answer(w, http.StatusForbidden, "use an address such as 127.0.0.1, or localhost, for the admin pages")
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		if err := Authorize(r, token); err != nil {
			w.Header().Set("WWW-Authenticate", `Bearer realm="sluice admin"`)
			answer(w, http.StatusUnauthorized, err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Authorize returns an error for a request without the token.
func Authorize(r *http.Request, token string) error {
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return errors.New("this call needs the admin token: send it as Authorization: Bearer TOKEN")
	}
	// Hashes have equal lengths, so the comparison takes the same time for every guess.
	a, b := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return errors.New("the token is not the admin token")
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
