package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"
)

// openTracing makes the tracer of the configuration.
func (a *App) openTracing() (err error) {
	f := &a.file.Tracing
	if f.Endpoint == "" {
		return nil
	}
	failures := sampled.New(a.logger)
	a.engine.tracer, err = tracing.New(context.Background(), tracing.Options{
		Endpoint: f.Endpoint, Sample: float64(f.Sample), Version: a.o.Version,
		Trusted: a.ip.TrustsPeer, ClientIP: a.clientIP,
		Failed: func(err error) { failures.Error("traces cannot be sent", "error", err) },
	})
	if err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

// traced makes spans of the requests of the proxy, if tracing is on.
func (a *App) traced(next http.Handler) http.Handler {
	if a.engine.tracer == nil {
		return next
	}
	return a.engine.tracer.Wrap(next)
}

// closeTracing sends the spans that are left.
func (a *App) closeTracing() {
	if a.engine == nil || a.engine.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = a.engine.tracer.Close(ctx) // the collector may be gone
}
