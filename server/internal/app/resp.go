package app

import (
	"context"
	"crypto/tls"
	"slices"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/edge/resp"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// openRESP returns how the listener for Redis clients is made. Decisions have contexts of ctx.
func (a *App) openRESP(ctx context.Context, callers *access.Rules) func(*tls.Config) (accept.Protocol, error) {
	return func(config *tls.Config) (accept.Protocol, error) {
		o := resp.Options{
			Decider: a.engine.decider.Rules(), Pipelines: a.pipelines, OnVerdict: a.engine.answered(telemetry.EdgeRESP), Context: ctx, TLS: config, Version: a.o.Version,
			Idle: a.file.HTTP.IdleTimeout, Read: a.file.HTTP.HeaderTimeout,
		}
		if callers.NeedsToken() {
			o.Verify = callers.Verify
		}
		return resp.New(o)
	}
}

// counted returns the rules that metrics count: the rules of a policy, and the rule of CL.THROTTLE if clients of Redis
// can give it.
func (a *App) counted(rules *policy.Policy) []*policy.Rule {
	if a.file.Listen.RESP.Off() {
		return rules.Rules()
	}
	return append(slices.Clone(rules.Rules()), resp.ThrottleRule())
}

// isGone returns a function that reports whether a rule is not in a policy.
func isGone(rules *policy.Policy) func(rule string) bool {
	return func(rule string) bool { return rules.Rule(rule) == nil && rule != resp.ThrottleName }
}
