package store

import (
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// Live returns the state of the store, in the form of the API.
func (s *Store) Live() wire.Store {
	st := s.memory.Stats()
	w := wire.Store{Kind: "memory", Keys: st.Keys, Bytes: s.Bytes(), Overflow: st.Overflow}
	if s.remote == nil {
		return w
	}
	g := s.remote.Guard().Stats()
	w.Kind, w.Breaker, w.Nodes, w.Failing, w.InFlight = "redis", g.State.String(), g.Shards, g.Failing, g.InFlight
	w.Answered, w.Failed, w.Late, w.Refused = g.Answered, g.Failed-g.Late, g.Late, g.Refused
	if !g.Since.IsZero() {
		w.BreakerMS = max(0, time.Since(g.Since).Milliseconds())
	}
	return w
}
