package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// HybridLimit has the figures of one hybrid limit in this server.
type HybridLimit struct {
	// Limit is the limit's name, which begins with the rule's.
	Limit string
	// Bound describes the most and the least that the limit admits.
	Bound string
	// Keys is how many keys this server counts itself.
	Keys int
	// Over and Under are by how many units all servers together may now admit more than the limit of a key, or less.
	Over, Under int64
	// Escrow is how many units of these keys are granted to all servers. Unspent, Unreported and Overdraft
	// are this server's: granted units not spent, spent units not reported, and units beyond the limit.
	Escrow, Unspent, Unreported, Overdraft int64
	// Local, Cached and Exact count the decisions on granted units, by a denial kept in the process, and by the store.
	Local, Cached, Exact uint64
	// Excess is the most by which a key was beyond its limit, in all answers of the store.
	Excess int64
	// LastSync is when the store last answered; zero for never.
	LastSync time.Time
}

// HybridKey is a key with units that are granted.
type HybridKey struct {
	Limit string
	Key   sluice.Key
	// Escrow is how many units of the key all servers have, and Holders how many servers that are.
	Escrow  int64
	Holders int
	// Unspent and Unreported are this server's units: granted and not spent, and spent and not reported.
	Unspent, Unreported int64
	// Age is for how long this server has had units of the key without a break, and Till in what time they expire.
	// Both are zero if it has none.
	Age, Till time.Duration
}

// hybrids is the answer to /v1/hybrid.
type hybrids struct {
	Limits []hybridLimit `json:"limits"`
	// Keys are the keys with the most granted units first.
	Keys []hybridKey `json:"keys"`
	// More means that there are more keys than the caller wanted.
	More bool `json:"more,omitempty"`
}

// hybridLimit is the JSON of a HybridLimit.
type hybridLimit struct {
	Rule       string `json:"rule"`
	Limit      string `json:"limit"`
	Bound      string `json:"bound"`
	Keys       int    `json:"keys"`
	Over       int64  `json:"over"`
	Under      int64  `json:"under"`
	Escrow     int64  `json:"escrow"`
	Unspent    int64  `json:"unspent"`
	Unreported int64  `json:"unreported"`
	Overdraft  int64  `json:"overdraft"`
	Local      uint64 `json:"local"`
	Cached     uint64 `json:"cached"`
	Exact      uint64 `json:"exact"`
	Excess     int64  `json:"excess"`
	// LastSyncMS is how long ago the store last answered; left out if it never did.
	LastSyncMS *int64 `json:"last_sync_ms,omitempty"`
}

// hybridKey is the JSON of a HybridKey.
type hybridKey struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	// Key holds the values of the rule's key; left out if the rule is gone or its key has changed.
	Key        []string `json:"key,omitzero"`
	Digest     string   `json:"digest"`
	Escrow     int64    `json:"escrow"`
	Holders    int      `json:"holders"`
	Unspent    int64    `json:"unspent"`
	Unreported int64    `json:"unreported"`
	AgeMS      int64    `json:"age_ms"`
	TillMS     int64    `json:"till_ms"`
}

// Hybrid is the call /v1/hybrid without authorization. The caller must authorize requests.
func (a *API) Hybrid() http.Handler { return a.handler(a.hybridCalls()) }

func (a *API) hybridCalls() []call { return []call{{method: http.MethodGet, serve: a.listHybrid}} }

// listHybrid answers with the hybrid limits, and the keys with the most granted units.
func (a *API) listHybrid(w http.ResponseWriter, r *http.Request) *problem {
	rule, most, p := a.keyQuery(r.URL.Query())
	if p != nil {
		return p
	}
	limits, keys, more := a.o.Hybrid(rule, most)
	answer := hybrids{Limits: make([]hybridLimit, len(limits)), Keys: make([]hybridKey, len(keys)), More: more}
	for i := range limits {
		answer.Limits[i] = newHybridLimit(&limits[i])
	}
	for i := range keys {
		answer.Keys[i] = a.hybridKey(&keys[i])
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// newHybridLimit returns the JSON of a hybrid limit.
func newHybridLimit(l *HybridLimit) hybridLimit {
	x := hybridLimit{
		Rule: ruleOf(l.Limit), Limit: l.Limit, Bound: l.Bound, Keys: l.Keys, Over: l.Over, Under: l.Under,
		Escrow: l.Escrow, Unspent: l.Unspent, Unreported: l.Unreported, Overdraft: l.Overdraft,
		Local: l.Local, Cached: l.Cached, Exact: l.Exact, Excess: l.Excess,
	}
	if !l.LastSync.IsZero() {
		ago := max(0, time.Since(l.LastSync).Milliseconds())
		x.LastSyncMS = &ago
	}
	return x
}

// hybridKey returns the JSON of a key with granted units.
func (a *API) hybridKey(k *HybridKey) hybridKey {
	rule := ruleOf(k.Limit)
	return hybridKey{
		Rule: rule, Limit: k.Limit, Key: a.o.Decider.Policy().KeyValues(rule, k.Key), Digest: a.o.Fingerprint(k.Key),
		Escrow: k.Escrow, Holders: k.Holders, Unspent: k.Unspent, Unreported: k.Unreported,
		AgeMS: max(0, k.Age.Milliseconds()), TillMS: max(0, k.Till.Milliseconds()),
	}
}

// ruleOf returns the rule of a limit, whose name begins with the rule's.
func ruleOf(limit string) string {
	rule, _, _ := strings.Cut(limit, "/")
	return rule
}
