// Package echo is the service that the quick start protects. It answers every request with the
// text of that request, without secrets, so that a newcomer sees what a service behind Sluice gets.
package echo

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// maxBody bounds how much of a request's body is echoed.
const maxBody = 16 << 10

// Handler answers with the text of the request.
type Handler struct{}

var _ http.Handler = Handler{}

// hidden is written instead of secrets. An answer may be cached or logged, and scripts of a page must not
// read its cookies here.
const hidden = "(hidden)"

// secret matches the names of headers and parameters whose values are secrets.
var secret = regexp.MustCompile(`(?i)auth|cookie|token|secret|passw|pwd|session|signature|credential|key|jwt`)

// parameter matches a parameter of a query.
var parameter = regexp.MustCompile(`([?&;])([^=&;#]*)=[^&;#]*`)

// withoutSecrets returns the target of a request without the values of secret parameters.
func withoutSecrets(target string) string {
	return parameter.ReplaceAllStringFunc(target, func(text string) string {
		name, _, _ := strings.Cut(text, "=")
		if plain, err := url.QueryUnescape(name[1:]); err == nil && secret.MatchString(plain) || secret.MatchString(name) {
			return name + "=" + hidden
		}
		return text
	})
}

// operational are the usual paths of the operator's pages. These pages are on the admin listener; here they are
// not found.
var operational = []string{"/livez", "/readyz", "/healthz", "/healthcheck", "/metrics", "/debug"}

// ServeHTTP answers one request.
func (Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, p := range operational {
		if r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/") {
			http.NotFound(w, r)
			return
		}
	}
	// HTTP/1 clients expect the body to be read before the answer starts.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")

	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s %s %s\nHost: %s\n", r.Method, withoutSecrets(r.RequestURI), r.Proto, r.Host)
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range r.Header[name] {
			if secret.MatchString(name) {
				v = hidden
			}
			fmt.Fprintf(out, "%s: %s\n", name, v)
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(out, "\n%s\n", body)
	}
	// The client may be gone.
	_ = out.Flush()
}
