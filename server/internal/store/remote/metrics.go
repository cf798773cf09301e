package remote

import "github.com/sluicehq/sluice/server/internal/observe/telemetry"

// publish publishes the metrics of the store.
func (r *Store) publish(m *telemetry.Metrics) {
	m.Gauge("sluice_store_up", "Whether the store decides: 0 while rules answer by on_store_error.", func() float64 {
		if r.health.trouble() != nil {
			return 0
		}
		return 1
	})
	m.Gauge("sluice_store_breaker_state", "The breaker of the store: 0 closed, 1 open, 2 half-open. In a cluster, the worst of all nodes.",
		func() float64 { return float64(r.guard.State()) })
	m.Gauge("sluice_store_nodes_failing", "Nodes of the store whose breaker is not closed.",
		func() float64 { return float64(r.guard.Stats().Failing) })
	m.Counter("sluice_store_breaker_opened_total", "How often the breaker opened.",
		func() float64 { return float64(r.guard.Stats().Opened) })
	m.Gauge("sluice_store_calls_in_flight", "Calls of the store that have not returned.",
		func() float64 { return float64(r.guard.Stats().InFlight) })
	m.Counters("sluice_store_calls_total",
		"Calls of the store by outcome. Slow calls were answered; late calls failed; refused and shed calls never reached the store.",
		"outcome", []string{"answered", "slow", "failed", "late", "given_up", "refused", "shed"},
		func(outcome string) float64 {
			st := r.guard.Stats()
			return float64(map[string]uint64{
				"answered": st.Answered - st.Slow, "slow": st.Slow, "failed": st.Failed - st.Late, "late": st.Late,
				"given_up": st.GivenUp, "refused": st.Refused, "shed": st.Shed,
			}[outcome])
		})
}
