package app

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/sluicehq/sluice/server/internal/forwardauth"
	"github.com/sluicehq/sluice/server/internal/telemetry"
)

// openAuth makes the protocol of the listener auth. Over TLS, package net/http serves it.
func (a *App) openAuth(ctx context.Context, serving func(limits, http.Handler, func(*web)) opening) opening {
	o := &a.file.HTTP
	return func(config *tls.Config) (protocol, error) {
		d, err := a.reported(telemetry.EdgeAuth, Auth)
		if err != nil {
			return nil, err
		}
		h := forwardauth.New(d, a.ip.TrustsPeer)
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
