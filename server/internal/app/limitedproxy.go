package app

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/echo"
	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// limitedProxy makes the proxy and the middleware before it.
func (a *App) limitedProxy(ip *httplimit.ClientIP) (http.Handler, error) {
	f := a.file
	target, transport, err := upstream(&f.Upstream)
	if err != nil {
		return nil, err
	}
	a.elsewhere = proxy.NewTransport(*transport)
	if target == nil {
		target = &url.URL{Scheme: "http", Host: "echo"}
		a.echo = echo.Start(a.logger)
		transport.Dial = a.echo.Dial
	}
	a.transport = proxy.NewTransport(*transport)
	if target.Scheme == "https" {
		if err := a.useClientTLS("upstream.tls", &f.Upstream.TLS, a.transport); err != nil {
			return nil, err
		}
	}
	a.abandoned = proxy.NewAbandoned(proxy.AbandonedOptions{Most: proxy.MostAbandoned(f.Upstream.MaxConnections)})
	a.metrics.Gauge("sluice_abandoned_requests", "Requests whose clients have left, and whose answers are awaited because a limit depends on them.",
		func() float64 { return float64(a.abandoned.Count()) })
	passing := proxy.Options{
		Upstream:     target,
		Transport:    a.transport,
		UpstreamHost: !f.Upstream.BuiltIn() && !f.Upstream.PreserveHost,
		Trusted:      trusts(f),
		ClientIP: func(r *http.Request) netip.Addr {
			addr, _ := ip.Addr(r)
			return addr
		},
		Upgrades:       slices.DeleteFunc(slices.Clone(f.Upstream.Upgrades), func(protocol string) bool { return protocol == "none" }),
		MethodOverride: f.Upstream.MethodOverride,

		Stall:       a.o.Stall,
		MaxBody:     int64(f.HTTP.MaxProxyBodySize),
		MinRate:     int64(f.HTTP.MinBodyRate),
		Grace:       f.HTTP.BodyGrace,
		BodyTimeout: f.HTTP.BodyTimeout,
		Abandoned:   a.abandoned,
	}
	passing.Report(a.metrics, a.logger)
	pass, err := proxy.New(passing)
	if err != nil {
		return nil, err
	}
	passing.Transport = a.elsewhere
	a.fallbacks = proxy.NewFallbacks(passing)
	if err := a.fallbacks.Set(a.engine.decider.Policy()); err != nil {
		return nil, err
	}
	limiter, err := a.engine.limiter(telemetry.EdgeProxy, httplimit.Options{
		Headers: headersOf(f),
		OnDenied: func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
			proxy.Refuse(w, r)
			a.answerFailed(httplimit.WriteDenied(w, r, v))
		},
		OnDegraded: func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
			proxy.Refuse(w, r)
			a.answerFailed(httplimit.WriteDegraded(w, r, v))
		},
		Fallback: a.fallbacks.Handler,
		OnError:  func(_ *http.Request, err error) { a.storeFailed(err) },
	})
	if err != nil {
		return nil, err
	}
	a.metrics.Gauge("sluice_waiting_requests", "Requests that wait for their delay.",
		func() float64 { return float64(limiter.Waiting()) })
	return proxy.Bounded(named(target.Host, a.traced(limiter.Wrap(pass))), a.o.Stall), nil
}

// named gives requests without a host the name of the service, by which the service gets them, so
// that rules match that name.
func named(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "" {
			r.Host = host
		}
		next.ServeHTTP(w, r)
	})
}

// headersOf returns which rate-limit headers clients get.
func headersOf(f *config.File) httplimit.HeaderOptions {
	n := &f.HeaderNames
	return httplimit.HeaderOptions{Profile: profiles[f.Headers], Names: [3]string{n.Limit, n.Remaining, n.Reset}, Jitter: f.Jitter}
}

// profiles are the header profiles that a file can name.
var profiles = map[config.HeaderProfile]httplimit.Profile{
	"":                             httplimit.ProfileIETF,
	config.HeadersIETF:             httplimit.ProfileIETF,
	config.HeadersXRateLimit:       httplimit.ProfileXRateLimit,
	config.HeadersXRateHyphenLimit: httplimit.ProfileXRateLimitDashed,
	config.HeadersRateLimit:        httplimit.ProfileRateLimit,
	config.HeadersNone:             httplimit.ProfileNone,
}

// trusts returns a function that reports whether the address of a peer is one of a trusted proxy. The address of a peer at
// a Unix socket is invalid.
func trusts(f *config.File) func(netip.Addr) bool {
	networks, unix := f.Trusted()
	return func(addr netip.Addr) bool {
		if !addr.IsValid() {
			return unix
		}
		for _, n := range networks {
			if n.Contains(addr) {
				return true
			}
		}
		return false
	}
}

// upstream reads the upstream and its transport, without its certificates. The URL is nil for the built-in service.
func upstream(u *proxy.Upstream) (*url.URL, *proxy.TransportOptions, error) {
	o := &proxy.TransportOptions{
		Connect: u.ConnectTimeout, Answer: u.ResponseTimeout, Idle: u.IdleTimeout, MaxConnections: u.MaxConnections,
	}
	if u.BuiltIn() {
		return nil, o, nil
	}
	target, err := url.Parse(u.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("the upstream: %w; write it as http://127.0.0.1:3000", err)
	}
	return target, o, nil
}
