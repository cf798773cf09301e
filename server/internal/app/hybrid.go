package app

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/sluicehq/sluice/server/internal/edge/api"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// hybridStats returns the figures of the hybrid limits of the policy in force. Limits of an earlier policy are left out, so
// that the metrics of rules that come and go stay bounded.
func (a *App) hybridStats() []hybrid.LimitStats {
	if a.redis == nil {
		return nil
	}
	known := a.hybridLimits()
	return slices.DeleteFunc(a.redis.Hybrid().Stats(), func(s hybrid.LimitStats) bool { return known[s.Limit] == nil })
}

// hybridLimits returns the hybrid limits of the policy in force, candidates included, by their names.
func (a *App) hybridLimits() map[string]*sluice.Limit {
	limits := map[string]*sluice.Limit{}
	for _, r := range a.engine.decider.Policy().Rules() {
		for _, l := range slices.Concat(r.Limits, r.Candidate) {
			if l.Hybrid() != nil {
				limits[l.Name()] = l
			}
		}
	}
	return limits
}

// publishHybrid publishes the metrics of hybrid limits.
func (a *App) publishHybrid() {
	a.metrics.Hybrid(func() []telemetry.HybridLimit {
		stats := a.hybridStats()
		all := make([]telemetry.HybridLimit, len(stats))
		for i := range stats {
			all[i] = telemetry.HybridLimit(stats[i])
		}
		return all
	})
}

// listHybrid returns the hybrid limits of a rule, up to most of its keys, and whether there are more, in the form of
// the API. An empty rule means all rules.
func (a *App) listHybrid(rule string, most int) (limits []api.HybridLimit, keys []api.HybridKey, more bool) {
	if a.redis == nil {
		return nil, nil, false
	}
	other := func(limit string) bool { return rule != "" && limit != rule && !strings.HasPrefix(limit, rule+"/") }
	known := a.hybridLimits()
	for _, s := range a.hybridStats() {
		if other(s.Limit) {
			continue
		}
		limits = append(limits, api.HybridLimit{
			Limit: s.Limit, Bound: describe.Hybrid(known[s.Limit]), Keys: s.Keys, Over: s.Over, Under: s.Under,
			Escrow: s.Escrow, Unspent: s.Unspent, Unreported: s.Unreported, Overdraft: s.Overdraft,
			Local: s.Local, Cached: s.Cached, Exact: s.Exact, Excess: s.Excess, LastSync: s.LastSync,
		})
	}
	now := time.Now()
	for _, k := range a.redis.Hybrid().Keys(math.MaxInt) {
		switch {
		case other(k.Limit):
			continue
		case len(keys) == most:
			return limits, keys, true
		}
		listed := api.HybridKey{
			Limit: k.Limit, Key: k.Key, Escrow: k.Escrow, Holders: k.Holders, Unspent: k.Unspent, Unreported: k.Unreported, Age: k.Age,
		}
		if !k.Till.IsZero() {
			listed.Till = k.Till.Sub(now)
		}
		keys = append(keys, listed)
	}
	return limits, keys, false
}
