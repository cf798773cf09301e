package app

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/forwardauth"
	"github.com/sluicehq/sluice/server/internal/telemetry"
)

// forwardAuth returns the handler of the listener auth.
func (a *App) forwardAuth() (*forwardauth.Handler, error) {
	return forwardauth.New(forwardauth.Options{
		Decider: a.engine.decider, Gate: a.gate, Headers: a.headers, Trusts: a.ip.TrustsPeer,
		MethodOverride: a.file.Upstream.MethodOverride,
		OnVerdict:      func(v *policy.Verdict, took time.Duration) { a.engine.observe(telemetry.EdgeAuth, nil, v, took) },
		OnError:        a.storeFailed,
		AnswerFailed:   a.answerFailed,
		Unusable:       a.unusable(Auth),
	})
}

// openAuth makes the protocol of the listener auth. Over TLS, package net/http serves it.
func (a *App) openAuth(ctx context.Context, h http.Handler, serving func(limits, http.Handler, func(*web)) opening) opening {
	o := &a.file.HTTP
	return func(config *tls.Config) (protocol, error) {
		if config != nil {
			// An answer may wait for a delay, so neither reading nor writing has a deadline of the whole request.
			return serving(limits{header: o.HeaderTimeout, idle: o.IdleTimeout, headerBytes: int(o.MaxHeaderSize)}, h, nil)(config)
		}
		return forwardauth.NewServer(forwardauth.ServerOptions{
			Handler: h, Context: ctx, Idle: o.IdleTimeout, Head: o.HeaderTimeout, HeadBytes: int(o.MaxHeaderSize), Linger: a.o.Linger,
			Panicked: func(reason any) { a.logger.Error("a request of a gateway failed", "panic", reason) },
		}), nil
	}
}

// unusable returns a function that logs why a request of a gateway at a listener got no decision. Clients can cause
// many of them.
func (a *App) unusable(listener string) func(string) {
	return func(reason string) {
		if hidden, ok := a.gatewayLog.Take(time.Now()); ok {
			a.logger.Warn("a request of a gateway cannot be used", "listener", listener, "reason", reason, "not_logged", hidden)
		}
	}
}
