package app

import (
	"context"
	"crypto/tls"

	"github.com/sluicehq/sluice/server/internal/spoe"
	"github.com/sluicehq/sluice/server/internal/telemetry"
)

// openSPOE returns how the listener for HAProxy is made. Decisions have contexts of ctx.
func (a *App) openSPOE(ctx context.Context) func(*tls.Config) (protocol, error) {
	return func(config *tls.Config) (protocol, error) {
		d, err := a.reported(telemetry.EdgeSPOE, SPOE)
		if err != nil {
			return nil, err
		}
		return spoe.New(spoe.Options{
			Decider: d, Trusts: trusts(a.file.TrustedProxies),
			Context: ctx, TLS: config, Idle: a.file.HTTP.IdleTimeout, Read: a.file.HTTP.HeaderTimeout,
		})
	}
}
