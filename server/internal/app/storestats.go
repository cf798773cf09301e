package app

import (
	"github.com/sluicehq/sluice/server/internal/store/local"
)

import "github.com/sluicehq/sluice/memory"

// publishStats publishes the metrics of the store and of the reservations.
func (a *App) publishStats() {
	m := a.metrics
	if a.memory != nil {
		a.publishMemory("sluice_store", "the store", a.memory)
		what := "they share budgets"
		if a.file.Store.Memory.WhenFull == "deny" {
			what = "they are denied"
		}
		a.rooms = append(a.rooms, local.NewRoom(a.memory, "store.memory.max_size", what, a.logger))
	}
	if a.redis != nil {
		a.publishRedis()
		a.publishHybrid()
	}
	m.Gauge("sluice_reservations_open", "Reservations of the decision API that are open.",
		func() float64 { return float64(a.api.Open()) })
	m.Counter("sluice_reservations_expired_total", "Reservations that expired.",
		func() float64 { return float64(a.api.Expired()) })
}

// markBytes is what is remembered about each state that is saved in a file, see memory.Saver.
const markBytes = 17

// StateBytes returns how much memory the states in this process take, in the store and in its local fallback, with
// what is remembered about saved ones. There are no pointers in it.
func (a *App) StateBytes() (n int64) {
	if a.memory != nil {
		st := a.memory.Stats()
		if n += st.Bytes; a.states != nil {
			n += markBytes * st.Keys
		}
	}
	if a.redis != nil && a.redis.Local() != nil {
		n += a.redis.Local().Stats().Bytes
	}
	return n
}

// publishMemory publishes the metrics of a store in memory. The argument what names the
// store in their help texts.
func (a *App) publishMemory(prefix, what string, s *memory.Store) {
	m := a.metrics
	m.Gauge(prefix+"_keys", "States that "+what+" holds.",
		func() float64 { return float64(s.Stats().Keys) })
	m.Gauge(prefix+"_bytes", "Memory that states take, in bytes.",
		func() float64 { return float64(s.Stats().Bytes) })
	m.Counter(prefix+"_overflow_total", "Decisions about new keys for which "+what+" had no room.",
		func() float64 { return float64(s.Stats().Overflow) })
	m.Counter(prefix+"_evicted_live_total", "States that were forgotten before their limits were full again.",
		func() float64 { return float64(s.Stats().EvictedLive) })
}

// publishRedis publishes the metrics of the store in Redis.
func (a *App) publishRedis() {
	m, r := a.metrics, a.redis
	m.Gauge("sluice_store_up", "Whether the store decides: 0 while rules answer by on_store_error.", func() float64 {
		if r.Down() {
			return 0
		}
		return 1
	})
	m.Gauge("sluice_store_breaker_state", "The breaker of the store: 0 closed, 1 open, 2 half-open. In a cluster, the worst of all nodes.",
		func() float64 { return float64(r.Guard().State()) })
	m.Gauge("sluice_store_nodes_failing", "Nodes of the store whose breaker is not closed.",
		func() float64 { return float64(r.Guard().Stats().Failing) })
	m.Counter("sluice_store_breaker_opened_total", "How often the breaker opened.",
		func() float64 { return float64(r.Guard().Stats().Opened) })
	m.Gauge("sluice_store_calls_in_flight", "Calls of the store that have not returned.",
		func() float64 { return float64(r.Guard().Stats().InFlight) })
	m.Counters("sluice_store_calls_total",
		"Calls of the store by outcome. Slow calls were answered; late calls failed; refused and shed calls never reached the store.",
		"outcome", []string{"answered", "slow", "failed", "late", "given_up", "refused", "shed"},
		func(outcome string) float64 {
			st := r.Guard().Stats()
			return float64(map[string]uint64{
				"answered": st.Answered - st.Slow, "slow": st.Slow, "failed": st.Failed - st.Late, "late": st.Late,
				"given_up": st.GivenUp, "refused": st.Refused, "shed": st.Shed,
			}[outcome])
		})
	if r.Local() != nil {
		a.publishMemory("sluice_local", "the local fallback of the store", r.Local())
		a.rooms = append(a.rooms, local.NewRoom(r.Local(), "store.redis.local.max_size", "they share budgets", a.logger))
	}
}
