package app

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/edge/extauthz"
	"github.com/sluicehq/sluice/server/internal/edge/forwardauth"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"github.com/sluicehq/sluice/server/internal/edge/resp"
	"github.com/sluicehq/sluice/server/internal/edge/rls"
	"github.com/sluicehq/sluice/server/internal/edge/spoe"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/listen/grpcserver"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// forwardAuth returns how the handler of the listener auth is made.
func (e *engine) forwardAuth() handling {
	reported := e.reported("auth", "auth")
	return func(*access.Rules) (http.Handler, error) {
		d, err := gateway.New(reported)
		return forwardauth.New(d, e.ip.TrustsPeer), err
	}
}

// haproxy returns how the listener for HAProxy opens. Decisions have contexts of ctx.
func (e *engine) haproxy(ctx context.Context) opening {
	reported := e.reported("spoe", "spoe")
	return func(_ *access.Rules, config *tls.Config) (accept.Protocol, error) {
		d, err := gateway.New(reported)
		if err != nil {
			return nil, err
		}
		return spoe.New(spoe.Options{
			Decider: d, Trusts: e.ip.Trusts,
			Context: ctx, TLS: config, Idle: e.file.HTTP.IdleTimeout, Read: e.file.HTTP.HeaderTimeout,
		})
	}
}

// envoy returns how the listener for gRPC opens.
func (e *engine) envoy(ready func() error) opening {
	reported, limited := e.reported("ext_authz", "grpc"), e.descriptorOptions()
	return func(rules *access.Rules, config *tls.Config) (accept.Protocol, error) {
		d, err := gateway.New(reported)
		if err != nil {
			return nil, err
		}
		limits, err := rls.New(limited)
		if err != nil {
			return nil, err
		}
		requests, h := extauthz.New(d), &e.file.HTTP
		o := grpcserver.Options{
			Services:    []grpcserver.Service{{Desc: limits.Desc(), Impl: limits}, {Desc: requests.Desc(), Impl: requests}},
			Descriptors: limits.Descriptors(),
			TLS:         config, Ready: ready,
			MaxMessage: h.MaxBodySize.Int(), MaxHeader: uint32(min(h.MaxHeaderSize, maxHeaderList)),
			HandshakeTimeout: h.HeaderTimeout, CallTimeout: h.ReadTimeout, IdleTimeout: h.IdleTimeout,
			Logger: e.logger,
		}
		if rules.NeedsToken() {
			o.Verify = rules.Verify
		}
		return grpcserver.New(o)
	}
}

// maxHeaderList bounds the metadata of a call, in bytes.
const maxHeaderList = 1 << 24

// rateLimitsOverHTTP returns how the handler of the listener json is made: Envoy's rate limit service over HTTP.
func (e *engine) rateLimitsOverHTTP(ready func() error) handling {
	limited := e.descriptorOptions()
	return func(rules *access.Rules) (http.Handler, error) {
		service, err := rls.New(limited)
		if err != nil {
			return nil, err
		}
		return service.HTTPHandler(rules.Protect, ready), nil
	}
}

// redisClients returns how the listener for Redis clients opens. Decisions have contexts of ctx.
func (e *engine) redisClients(ctx context.Context, version string) opening {
	o := resp.Options{
		Decider: e.decider.Rules(), Pipelines: e.pipelines, OnVerdict: e.answered("resp"), Context: ctx, Version: version,
		Idle: e.file.HTTP.IdleTimeout, Read: e.file.HTTP.HeaderTimeout,
	}
	return func(rules *access.Rules, config *tls.Config) (accept.Protocol, error) {
		if rules.NeedsToken() {
			o.Verify = rules.Verify
		}
		o.TLS = config
		return resp.New(o)
	}
}

// answerMargin is how long before a caller's deadline a store on another machine must have decided, if the caller has
// four times as much: the answer needs time, on a busy machine too.
const answerMargin = 100 * time.Millisecond

// descriptorOptions returns the options of Envoy's rate limit service.
func (e *engine) descriptorOptions() rls.Options {
	o := rls.Options{
		Decider:   e.decider.Rules(),
		OnVerdict: e.answered(telemetry.EdgeRLS),
		OnError:   e.storeFailed,
		Headers:   e.headers,

		OnDescriptors: e.descriptors.Observe,
		RequestHeaders: func(v *policy.Verdict) http.Header {
			set, _ := e.decider.PassedHeaders(&http.Request{Header: http.Header{}}, v)
			return set
		},
		MaxMessage: int64(e.file.HTTP.MaxBodySize),
	}
	if e.store.InRedis() {
		o.Margin = answerMargin
	}
	return o
}

// reported returns the options of what decides about the requests that gateways report to an edge at a listener.
func (e *engine) reported(edge telemetry.Edge, listener string) gateway.Options {
	observe := e.decisions.At(edge)
	return gateway.Options{
		Decider: e.decider, Gate: e.gate, Headers: e.headers, MethodOverride: e.file.Upstream.MethodOverride,
		OnVerdict: func(v *policy.Verdict, took time.Duration) { observe(nil, v, took) },
		OnError:   e.storeFailed, AnswerFailed: e.answerFailed,
		// Clients can cause many of them.
		Unusable: func(reason string) {
			e.gatewayLog.Warn("a request of a gateway cannot be used", "listener", listener, "reason", reason)
		},
	}
}
