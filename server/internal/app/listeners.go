package app

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/edge/admin"
	"github.com/sluicehq/sluice/server/internal/edge/dashboard"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/listen/web"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
)

// opening makes the protocol of a listener, and handling its handler if the protocol is HTTP.
type (
	opening  = func(*access.Rules, *tls.Config) (accept.Protocol, error)
	handling = func(*access.Rules) (http.Handler, error)
)

// endpoints returns how the listeners of the configuration answer. Each has a row here and in config.Listen.All.
// Requests have contexts of ctx.
func (a *App) endpoints(ctx context.Context) map[string]accept.Endpoint {
	e, forWeb := &a.engine, []string{"h2", "http/1.1"}
	usual, streamed, delayed := boundsOf(&a.o.File.HTTP)
	over := func(b web.Bounds, handler handling, change func(*web.Protocol)) opening {
		return func(rules *access.Rules, config *tls.Config) (accept.Protocol, error) {
			h, err := handler(rules)
			if err != nil {
				return nil, err
			}
			w := web.New(ctx, config, h, b, sampled.HTTP(a.o.Logger))
			w.Linger = a.o.Linger
			if change != nil {
				change(w)
			}
			return w, nil
		}
	}
	return map[string]accept.Endpoint{
		"proxy": {Scheme: "http", ALPN: forWeb, Open: over(streamed, a.upstream.limited, nil), Note: a.upstream.note()},
		"api":   {Scheme: "http", ALPN: forWeb, Open: over(usual, e.decisionAPI, (*web.Protocol).Multiplex)},
		"auth":  {Scheme: "http", ALPN: forWeb, Open: over(delayed, e.forwardAuth(), nil)},
		"admin": {Scheme: "http", ALPN: forWeb, Open: over(usual, a.pages, func(w *web.Protocol) { w.Linger = 0 }), Last: true},
		"grpc":  {Scheme: "grpc", ALPN: []string{"h2"}, Open: e.envoy(a.Ready)},
		"json":  {Scheme: "http", ALPN: forWeb, Open: over(usual, e.rateLimitsOverHTTP(a.Ready), nil)},
		"spoe":  {Scheme: "spop", Open: e.haproxy(ctx)},
		"resp":  {Scheme: "redis", Open: e.redisClients(ctx, a.o.Version)},
	}
}

// boundsOf returns the bounds of usual requests, of bodies that may take any time as long as they keep coming, and of
// answers that may wait for a delay.
func boundsOf(s *web.Settings) (usual, streamed, delayed web.Bounds) {
	delayed = web.Bounds{Header: s.HeaderTimeout, Idle: s.IdleTimeout, HeaderBytes: s.MaxHeaderSize.Int()}
	streamed = delayed
	streamed.Write = time.Minute
	usual = streamed
	usual.Read = s.ReadTimeout
	return usual, streamed, delayed
}

// pages returns the handler of the admin listener.
func (a *App) pages(rules *access.Rules) (http.Handler, error) {
	pages := a.engine.api.Operations()
	pages["/metrics"] = a.metrics.Handler()
	a.dashboard(pages)
	return admin.New(admin.Options{
		Protect: rules.Protect, Ready: a.Ready, Detail: a.detail, Pages: pages, Static: rules.ProtectStatic(dashboard.Static()),
	}), nil
}
