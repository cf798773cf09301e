package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Denials logs a sample of what is denied: the first few of each second. The
// first line after a gap says how many were left out, so that a flood costs a bounded
// rate of lines and none of it goes unseen.
type Denials struct {
	logger      *slog.Logger
	sampler     *Sampler
	fingerprint func(sluice.Key) string
	now         func() time.Time
}

// NewDenials returns a log of at most perSecond lines a second; with zero it
// writes nothing.
func NewDenials(logger *slog.Logger, perSecond int, fingerprint func(sluice.Key) string) *Denials {
	return &Denials{logger: logger, sampler: NewSampler(perSecond), fingerprint: fingerprint, now: time.Now}
}

// Observe logs a verdict if it is a denial and its turn.
func (d *Denials) Observe(e Edge, v *policy.Verdict) {
	if v.Allowed() || v.Abandoned() {
		return
	}
	hidden, ok := d.sampler.Take(d.now())
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("edge", string(e)), slog.String("reason", v.Reason.String()))
	if v.Rule != nil {
		attrs = append(attrs, slog.String("rule", v.Rule.Name))
	}
	if v.Missing != nil {
		// The name of a header or cookie: from the configuration, not from the client.
		attrs = append(attrs, slog.String("missing", v.Missing.Name))
	}
	if met := tightest(v); met != nil {
		attrs = append(attrs,
			slog.String("limit", met.Request.Limit.Name()),
			slog.String("key", d.fingerprint(met.Request.Key)),
			slog.Int64("cost", met.Request.Cost),
			slog.Int64("capacity", met.Decision.Limit),
			slog.Int64("remaining", met.Decision.Remaining),
			slog.Duration("retry_after", met.Decision.RetryAfter),
		)
	}
	if hidden > 0 {
		attrs = append(attrs, slog.Int("not_logged", hidden))
	}
	d.logger.LogAttrs(context.Background(), slog.LevelInfo, "denied", attrs...)
}

// tightest returns the limit that made the verdict a denial.
func tightest(v *policy.Verdict) *policy.LimitResult {
	for i := range v.Results {
		if m := &v.Results[i]; m.Rule == v.Rule && m.Request.Limit == v.TightestLimit && !m.Decision.Allowed {
			return m
		}
	}
	return nil
}
