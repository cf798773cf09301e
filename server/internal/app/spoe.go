package app

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/spoe"
	"github.com/sluicehq/sluice/server/internal/telemetry"
)

// openSPOE returns how the listener for HAProxy is made. Decisions have contexts of ctx.
func (a *App) openSPOE(ctx context.Context) func(*tls.Config) (protocol, error) {
	return func(config *tls.Config) (protocol, error) {
		return spoe.New(spoe.Options{
			Decider: a.engine.decider, Gate: a.gate, Headers: a.headers, Trusts: trusts(a.file.TrustedProxies),
			MethodOverride: a.file.Upstream.MethodOverride,
			OnVerdict:      func(v *policy.Verdict, took time.Duration) { a.engine.observe(telemetry.EdgeSPOE, nil, v, took) },
			OnError:        a.storeFailed, AnswerFailed: a.answerFailed, Unusable: a.unusable(SPOE),
			Context: ctx, TLS: config, Idle: a.file.HTTP.IdleTimeout, Read: a.file.HTTP.HeaderTimeout,
		})
	}
}
