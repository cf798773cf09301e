// Package admin serves the pages for operators, on a listener of its own. They are the probes of
// life and readiness, the metrics, and the calls that change state.
package admin

import (
	"fmt"
	"net/http"
)

// Options configure an admin handler.
type Options struct {
	// Protect adds the rules of the listener to all pages except the probes. Required.
	Protect func(http.Handler) http.Handler
	// Ready returns why the program should get no new requests; nil if it should.
	Ready func() error
	// Detail returns lines that are added to the answer of the readiness probe. Everybody who reaches the
	// listener can read them. May be nil.
	Detail func() string
	// Pages are further handlers by their path, such as "/metrics".
	Pages map[string]http.Handler
	// Static answers at /ui/ with files that hold no data. May be nil.
	Static http.Handler
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

	for path, page := range o.Pages {
		mux.Handle(path, o.Protect(page))
	}
	if o.Static != nil {
		mux.Handle("/ui", o.Static)
		mux.Handle("/ui/", o.Static)
	}
	mux.Handle("/", o.Protect(http.NotFoundHandler()))
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The prober may be gone.
	_, _ = fmt.Fprintln(w, text)
}
