package proxy

import (
	"log/slog"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// Report makes the proxies that are made with o count the requests that got no answer in the metrics, and log some of
// them. What clients do wrong hides no failure of the upstream.
func (o *Options) Report(m *telemetry.Metrics, logger *slog.Logger) {
	var upstream, client []string
	for _, f := range Failures {
		if f.Client() {
			client = append(client, f.String())
		} else {
			upstream = append(upstream, f.String())
		}
	}
	m.SetFailures(upstream, client)
	ofUpstream, ofClients := sampled.NewSampler(sampled.PerSecond), sampled.NewSampler(sampled.PerSecond)
	o.Failed = func(f Failure) {
		if f.Client() {
			m.ClientFailed(f.String())
		} else {
			m.UpstreamFailed(f.String())
		}
	}
	o.Sample = func(f Failure) (hidden int, ok bool) {
		if f.Client() {
			return ofClients.Take(time.Now())
		}
		return ofUpstream.Take(time.Now())
	}
	o.Logger, o.ErrorLog = logger, sampled.HTTP(logger)
}
