package app

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/edge/extauthz"
	"github.com/sluicehq/sluice/server/internal/edge/rls"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/listen/grpcserver"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// answerMargin is how long before a caller's deadline a store on another machine must have decided, if the caller has
// four times as much: the answer needs time, on a busy machine too.
const answerMargin = 100 * time.Millisecond

// openGRPC returns how the listener for gRPC is made.
func (a *App) openGRPC(callers *access.Rules) func(*tls.Config) (accept.Protocol, error) {
	return func(config *tls.Config) (accept.Protocol, error) {
		limits, err := a.rateLimitService()
		if err != nil {
			return nil, err
		}
		reported, err := a.reported(telemetry.EdgeExtAuthz, GRPC)
		if err != nil {
			return nil, err
		}
		requests, f := extauthz.New(reported), a.file
		o := grpcserver.Options{
			Services:    []grpcserver.Service{{Desc: limits.Desc(), Impl: limits}, {Desc: requests.Desc(), Impl: requests}},
			Descriptors: limits.Descriptors(),
			TLS:         config, Ready: a.Ready,
			MaxMessage: f.HTTP.MaxBodySize.Int(), MaxHeader: uint32(min(f.HTTP.MaxHeaderSize, maxHeaderList)),
			HandshakeTimeout: f.HTTP.HeaderTimeout, CallTimeout: f.HTTP.ReadTimeout, IdleTimeout: f.HTTP.IdleTimeout,
			Logger: a.logger,
		}
		if callers.NeedsToken() {
			o.Verify = callers.Verify
		}
		return grpcserver.New(o)
	}
}

// maxHeaderList bounds the metadata of a call, in bytes.
const maxHeaderList = 1 << 24

// rateLimitService makes Envoy's rate limit service.
func (a *App) rateLimitService() (*rls.Service, error) {
	o := rls.Options{
		Decider:   a.engine.decider.Rules(),
		OnVerdict: a.engine.answered(telemetry.EdgeRLS),
		OnError:   a.storeFailed,
		Headers:   a.headers,

		OnDescriptors: a.descriptors.Observe,
		RequestHeaders: func(v *policy.Verdict) http.Header {
			set, _ := a.engine.decider.PassedHeaders(&http.Request{Header: http.Header{}}, v)
			return set
		},
		MaxMessage: int64(a.file.HTTP.MaxBodySize),
	}
	if a.redis != nil {
		o.Margin = answerMargin
	}
	return rls.New(o)
}

// rateLimitsOverHTTP returns the handler of the listener json: Envoy's rate limit service over HTTP.
func (a *App) rateLimitsOverHTTP(callers *access.Rules) (http.Handler, error) {
	service, err := a.rateLimitService()
	if err != nil {
		return nil, err
	}
	return service.HTTPHandler(callers.Protect, a.Ready), nil
}
