package app

import (
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

// unusable returns a function that logs why a request of a gateway at a listener got no decision. Clients can cause
// many of them.
func (a *App) unusable(listener string) func(string) {
	return func(reason string) {
		if hidden, ok := a.gatewayLog.Take(time.Now()); ok {
			a.logger.Warn("a request of a gateway cannot be used", "listener", listener, "reason", reason, "not_logged", hidden)
		}
	}
}
