package app

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/echo"
	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// upstream is the service behind the proxy, with the upstreams of rules that degrade.
type upstream struct {
	settings  *proxy.Upstream
	transport *proxy.Transport // to the service
	elsewhere *proxy.Transport // to the upstreams of rules that degrade
	fallbacks *proxy.Fallbacks
	abandoned *proxy.Abandoned // requests whose clients have left
	echo      *echo.Service    // nil unless it is the service
	handler   http.Handler     // the proxy, with the middleware before it
}

// open makes the proxy and the middleware before it. Certificates are read again when their files change. The method
// close is needed after an error too.
func (u *upstream) open(e *engine, files *secret.Files, stall time.Duration) error {
	f := e.file
	u.settings = &f.Upstream
	target, err := targetOf(u.settings)
	if err != nil {
		return err
	}
	to := proxy.TransportOptions{
		Connect: u.settings.ConnectTimeout, Answer: u.settings.ResponseTimeout, Idle: u.settings.IdleTimeout, MaxConnections: u.settings.MaxConnections,
	}
	u.elsewhere = proxy.NewTransport(to)
	if target == nil {
		target = &url.URL{Scheme: "http", Host: "echo"}
		u.echo = echo.Start(e.logger)
		to.Dial = u.echo.Dial
	}
	u.transport = proxy.NewTransport(to)
	if target.Scheme == "https" {
		if err := u.readTLS(files); err != nil {
			return err
		}
	}
	u.abandoned = proxy.NewAbandoned(proxy.AbandonedOptions{Most: proxy.MostAbandoned(u.settings.MaxConnections)})
	e.metrics.Gauge("sluice_abandoned_requests", "Requests whose clients have left, and whose answers are awaited because a limit depends on them.",
		func() float64 { return float64(u.abandoned.Count()) })
	passing := proxy.Options{
		Upstream:       target,
		Transport:      u.transport,
		UpstreamHost:   !u.settings.BuiltIn() && !u.settings.PreserveHost,
		Trusted:        e.ip.Trusts,
		ClientIP:       e.clientIP,
		Upgrades:       slices.DeleteFunc(slices.Clone(u.settings.Upgrades), func(protocol string) bool { return protocol == "none" }),
		MethodOverride: u.settings.MethodOverride,

		Stall:       stall,
		MaxBody:     int64(f.HTTP.MaxProxyBodySize),
		MinRate:     int64(f.HTTP.MinBodyRate),
		Grace:       f.HTTP.BodyGrace,
		BodyTimeout: f.HTTP.BodyTimeout,
		Abandoned:   u.abandoned,
	}
	passing.Report(e.metrics, e.logger)
	pass, err := proxy.New(passing)
	if err != nil {
		return err
	}
	passing.Transport = u.elsewhere
	u.fallbacks = proxy.NewFallbacks(passing)
	if err := u.fallbacks.Set(e.decider.Policy()); err != nil {
		return err
	}
	limiter, err := e.limiter("proxy", httplimit.Options{
		Headers: headersOf(f),
		OnDenied: func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
			proxy.Refuse(w, r)
			e.answerFailed(httplimit.WriteDenied(w, r, v))
		},
		OnDegraded: func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
			proxy.Refuse(w, r)
			e.answerFailed(httplimit.WriteDegraded(w, r, v))
		},
		Fallback: u.fallbacks.Handler,
		OnAnswer: func(_ *http.Request, format string, end httplimit.AnswerEnd) {
			e.metrics.ModelAnswered(format, string(end))
		},
		OnError: func(_ *http.Request, err error) { e.storeFailed(err) },
	})
	if err != nil {
		return err
	}
	e.metrics.Gauge("sluice_waiting_requests", "Requests that wait for their delay.",
		func() float64 { return float64(limiter.Waiting()) })
	u.handler = proxy.Bounded(asServed(target.Host, e.decisions.Trace(limiter.Wrap(pass))), stall)
	return nil
}

// readTLS makes the transport use the authorities and the client certificate of the service.
func (u *upstream) readTLS(files *secret.Files) error {
	const setting = "upstream.tls"
	t := &u.settings.TLS
	return files.Read("the certificates of "+setting, []string{t.CA, t.Cert, t.Key}, func() error {
		config, err := secret.ClientTLS(setting, t)
		if err == nil {
			u.transport.SetTLS(config)
		}
		return err
	})
}

// limited returns the handler of the listener proxy.
func (u *upstream) limited(*access.Rules) (http.Handler, error) { return u.handler, nil }

// note describes the built-in service, if it is behind the proxy.
func (u *upstream) note() string {
	if u.settings.BuiltIn() {
		return "in front of " + builtIn
	}
	return ""
}

// builtIn describes the built-in service.
const builtIn = "a built-in service that echoes each request"

// close cuts off the requests to the service.
func (u *upstream) close() {
	if u.abandoned != nil {
		u.abandoned.Close()
	}
	if u.echo != nil {
		u.echo.Close()
	}
	for _, t := range []*proxy.Transport{u.transport, u.elsewhere} {
		if t != nil {
			t.Close()
		}
	}
}

// asServed gives requests the host and the path with which the service gets them, so that rules match those: without a
// host, the name of the service, and one slash at the beginning of the path.
func asServed(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "" {
			r.Host = host
		}
		if strings.HasPrefix(r.URL.Path, "//") {
			proxy.TrimSlashes(r.URL)
		}
		next.ServeHTTP(w, r)
	})
}

// targetOf returns the URL of the service; nil for the built-in service.
func targetOf(s *proxy.Upstream) (*url.URL, error) {
	if s.BuiltIn() {
		return nil, nil //nolint:nilnil // there may be none
	}
	target, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("the upstream: %w; write it as http://127.0.0.1:3000", err)
	}
	return target, nil
}

// checkUpstream checks the certificates for the service behind the proxy.
func checkUpstream(s *proxy.Upstream) error {
	target, err := targetOf(s)
	if err == nil && target != nil && target.Scheme == "https" {
		_, err = secret.ClientTLS("upstream.tls", &s.TLS)
	}
	return err
}
