package store

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// hybridStats returns the figures of the hybrid limits of the policy in force. Limits of an earlier policy are left out, so
// that the metrics of rules that come and go stay bounded.
func (s *Store) hybridStats() []hybrid.LimitStats {
	known := s.hybridLimits()
	return slices.DeleteFunc(s.remote.Hybrid().Stats(), func(l hybrid.LimitStats) bool { return known[l.Limit] == nil })
}

// hybridLimits returns the hybrid limits of the policy in force, candidates included, by their names.
func (s *Store) hybridLimits() map[string]*sluice.Limit {
	limits := map[string]*sluice.Limit{}
	for _, rule := range s.policy.Load().Rules() {
		for _, l := range slices.Concat(rule.Limits, rule.Candidate) {
			if l.Hybrid() != nil {
				limits[l.Name()] = l
			}
		}
	}
	return limits
}

// ListHybrid returns the hybrid limits of a rule, up to most of its keys, and whether there are more, in the form of
// the API. An empty rule means all rules.
func (s *Store) ListHybrid(rule string, most int, fingerprint func(sluice.Key) string) (h wire.Hybrid) {
	if s.remote == nil {
		return h
	}
	of := func(limit string) bool { return rule == "" || rule == ruleOf(limit) }
	known, now := s.hybridLimits(), time.Now()
	stats := s.hybridStats()
	for i := range stats {
		if l := &stats[i]; of(l.Limit) {
			h.Limits = append(h.Limits, hybridLimit(l, describe.Hybrid(known[l.Limit]), now))
		}
	}
	keys := s.remote.Hybrid().Keys(math.MaxInt)
	for i := range keys {
		k := &keys[i]
		if !of(k.Limit) {
			continue
		}
		if h.More = len(h.Keys) == most; h.More {
			break
		}
		h.Keys = append(h.Keys, hybridKey(k, s.policy.Load(), fingerprint(k.Key), now))
	}
	return h
}

// ruleOf returns the rule of a limit, whose name begins with the rule's.
func ruleOf(limit string) string {
	rule, _, _ := strings.Cut(limit, "/")
	return rule
}

// hybridLimit returns the figures of a hybrid limit as the API has them.
func hybridLimit(s *hybrid.LimitStats, bound string, now time.Time) wire.HybridLimit {
	l := wire.HybridLimit{
		Rule: ruleOf(s.Limit), Limit: s.Limit, Bound: bound, Keys: s.Keys, Over: s.Over, Under: s.Under,
		Escrow: s.Escrow, Unspent: s.Unspent, Unreported: s.Unreported, Overdraft: s.Overdraft,
		Local: s.Local, Cached: s.Cached, Exact: s.Exact, Excess: s.Excess,
	}
	if !s.LastSync.IsZero() {
		ago := max(0, now.Sub(s.LastSync).Milliseconds())
		l.LastSyncMS = &ago
	}
	return l
}

// hybridKey returns the figures of a key as the API has them. The policy is the one in force.
func hybridKey(k *hybrid.KeyStats, p *policy.Policy, digest string, now time.Time) wire.HybridKey {
	rule := ruleOf(k.Limit)
	listed := wire.HybridKey{
		Rule: rule, Limit: k.Limit, Key: p.KeyValues(rule, k.Key), Digest: digest, Escrow: k.Escrow, Holders: k.Holders,
		Unspent: k.Unspent, Unreported: k.Unreported, AgeMS: max(0, k.Age.Milliseconds()),
	}
	if !k.Till.IsZero() {
		listed.TillMS = max(0, k.Till.Sub(now).Milliseconds())
	}
	return listed
}
