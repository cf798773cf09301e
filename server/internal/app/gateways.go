package app

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/forwardauth"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"github.com/sluicehq/sluice/server/internal/edge/spoe"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/listen/web"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// openAuth makes the protocol of the listener auth. An answer may wait for a delay, so neither reading nor writing has a
// deadline of the whole request.
func (a *App) openAuth(serving func(web.Bounds, http.Handler, func(*web.Protocol)) opening) opening {
	o := &a.file.HTTP
	return func(config *tls.Config) (accept.Protocol, error) {
		d, err := a.reported(telemetry.EdgeAuth, Auth)
		if err != nil {
			return nil, err
		}
		b := web.Bounds{Header: o.HeaderTimeout, Idle: o.IdleTimeout, HeaderBytes: o.MaxHeaderSize.Int()}
		return serving(b, forwardauth.New(d, a.ip.TrustsPeer), nil)(config)
	}
}

// openSPOE returns how the listener for HAProxy is made. Decisions have contexts of ctx.
func (a *App) openSPOE(ctx context.Context) func(*tls.Config) (accept.Protocol, error) {
	return func(config *tls.Config) (accept.Protocol, error) {
		d, err := a.reported(telemetry.EdgeSPOE, SPOE)
		if err != nil {
			return nil, err
		}
		return spoe.New(spoe.Options{
			Decider: d, Trusts: trusts(a.file),
			Context: ctx, TLS: config, Idle: a.file.HTTP.IdleTimeout, Read: a.file.HTTP.HeaderTimeout,
		})
	}
}

// reported returns what decides about the requests that gateways report to an edge at a listener.
func (a *App) reported(edge telemetry.Edge, listener string) (*gateway.Decider, error) {
	return gateway.New(gateway.Options{
		Decider: a.engine.decider, Gate: a.gate, Headers: a.headers, MethodOverride: a.file.Upstream.MethodOverride,
		OnVerdict: func(v *policy.Verdict, took time.Duration) { a.engine.observe(edge, nil, v, took) },
		OnError:   a.storeFailed, AnswerFailed: a.answerFailed, Unusable: a.unusable(listener),
	})
}

// unusable returns a function that logs why a request of a gateway at a listener got no decision. Clients can cause
// many of them.
func (a *App) unusable(listener string) func(string) {
	return func(reason string) {
		a.gatewayLog.Warn("a request of a gateway cannot be used", "listener", listener, "reason", reason)
	}
}
