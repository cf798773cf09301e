package app

import (
	"io"
	"net/http"

	"github.com/sluicehq/sluice/server/internal/access"
)

// rateLimitsOverHTTP returns the handler of the listener json: Envoy's rate limit service over HTTP. Everybody may get
// /healthcheck, because the probes of orchestrators have no token.
func (a *App) rateLimitsOverHTTP(callers *access.Rules) (http.Handler, error) {
	service, err := a.rateLimitService()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthcheck", a.healthcheck)
	mux.Handle("/json", callers.Protect(service.JSONHandler()))
	return mux, nil
}

// healthcheck answers as Envoy's users expect: 200 with OK, or 500 with the reason.
func (a *App) healthcheck(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "OK"
	if err := a.Ready(); err != nil {
		status, text = http.StatusInternalServerError, err.Error()
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the prober may be gone
}
