package app

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/sluicehq/sluice/server/internal/edge/dashboard"
	"github.com/sluicehq/sluice/server/internal/observe"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/fleet"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// The most rules, keys and bans that the page lists.
const (
	mostLiveRules = fleet.MostRules
	mostLiveKeys  = 20
	mostNewlyKeys = 10
	mostHeavyKeys = 10
	mostLiveBans  = 50
)

// dashboard returns the calls of the page for operators, and adds them to pages.
func (a *App) dashboard(pages map[string]http.Handler) {
	e := &a.engine
	d := dashboard.New(dashboard.Options{
		Live: a.frame, Rules: a.rulesInWords, History: a.history, Draining: a.ending, Known: a.known, Operates: a.callers.Reveals,
		KeyOf: a.keyOf, Reset: pages["/v1/reset"], Unban: pages["/v1/bans"], Override: pages["/v1/overrides"],
		BeforeReveal: func(r *http.Request, rule, digest string) error {
			c := audit.Change{Action: "reveal", Rules: []string{rule}, Key: digest, Status: http.StatusOK}
			if err := a.audit.Begin(r, c); err != nil {
				return err
			}
			a.audit.Changed(r, c)
			return nil
		},
	})
	maps.Copy(pages, d.Calls())
	pages["/v1/explain"] = e.api.Explain(e.store.InRedis())
}

// known reports whether there is a rule. An empty rule means all rules.
func (a *App) known(rule string) bool {
	return rule == "" || rule == telemetry.NoRule || a.engine.decider.Policy().Rule(rule) != nil
}

// frame returns what the server does now, or all servers of the store, and the other servers.
func (a *App) frame(ctx context.Context, rule string, all bool) *wire.Live {
	l := a.live(ctx, rule)
	a.addPeers(ctx, rule, l, all)
	return l
}

// live returns what the server does now.
func (a *App) live(ctx context.Context, rule string) *wire.Live {
	e, now := &a.engine, time.Now()
	p := e.decider.Policy()
	e.decisions.History().Sample(now) // the newest step of the chart grows with each frame
	l := &wire.Live{
		AtMS: now.UnixMilli(), StartedMS: a.started.UnixMilli(), Version: a.o.Version, Notes: a.notes(), Policy: a.reloads.number(),
		Figures: telemetry.FigureNames[:], Store: e.store.Live(), Reloads: a.reloads.list(),
	}
	if err := a.Ready(); err != nil {
		l.NotReady = err.Error()
	}
	l.Rules, l.MoreRules = a.liveRules(p)
	l.Keys, l.MoreKeys = e.decisions.MostDenied(p, rule, mostLiveKeys, mostNewlyKeys)
	a.mask(ctx, l.Keys)
	denied, _, allowed := e.decisions.Summarize(p, rule, fleet.MostKeys)
	fleet.CountFreed(l.Rules, denied.Keys)
	l.Heavy, l.Sampled = observe.HeavyKeys(allowed.Keys, mostHeavyKeys), observe.Sampled
	a.liveBans(ctx, rule, l)
	l.Hybrid = append([]wire.HybridLimit{}, e.store.ListHybrid(rule, 0, e.decisions.Fingerprint).Limits...)
	return l
}

// mask replaces the values of keys by what is left for them. A key without values keeps what another server reports.
func (a *App) mask(ctx context.Context, keys []wire.DeniedKey) {
	for i := range keys {
		k := &keys[i]
		k.Now, k.Key = cmp.Or(a.engine.api.LeftNow(ctx, k), k.Now), nil
	}
}

// liveRules returns the rules in the order of the policy. Of too many, the rules with the most denials are listed.
func (a *App) liveRules(p *policy.Policy) (rules []wire.LiveRule, more int) {
	type counted struct {
		wire.LiveRule

		position       int
		denied, demand uint64
	}
	positions := map[string]int{telemetry.NoRule: len(p.Rules()) + 1}
	for i, r := range p.Rules() {
		positions[r.Name] = i + 1
	}
	var all []counted
	a.metrics.Totals(func(rule string, t *telemetry.Totals) {
		all = append(all, counted{wire.LiveRule{Rule: rule, Totals: slices.Clone(t[:])}, positions[rule], t.Denied(), t.Demand()})
	})
	if more = max(0, len(all)-mostLiveRules); more > 0 {
		slices.SortFunc(all, func(x, y counted) int {
			return cmp.Or(cmp.Compare(y.denied, x.denied), cmp.Compare(y.demand, x.demand))
		})
		all = all[:mostLiveRules]
	}
	slices.SortFunc(all, func(x, y counted) int {
		return cmp.Or(cmp.Compare(x.position, y.position), cmp.Compare(x.Rule, y.Rule))
	})
	for _, c := range all {
		c.Units, c.Pressure = a.metrics.Units(c.Rule), a.engine.pressure(c.Rule)
		if r := p.Rule(c.Rule); r != nil {
			c.State = stateOf(r)
		}
		rules = append(rules, c.LiveRule)
	}
	return rules, more
}

// liveBans lists the first bans in force, without the values of their keys.
func (a *App) liveBans(ctx context.Context, rule string, l *wire.Live) {
	all, more, err := a.engine.api.FirstBans(ctx, mostLiveBans)
	l.Bans, l.MoreBans, l.BansUnknown = []wire.Ban{}, more, err != nil
	for _, b := range all {
		if b.Key = nil; rule == "" || rule == b.Rule {
			l.Bans = append(l.Bans, b)
		}
	}
}

// keyOf returns the values of a key that live listed.
func (a *App) keyOf(ctx context.Context, rule, digest string) []string {
	e := &a.engine
	p := e.decider.Policy()
	const all = 1 << 20
	keys, _ := e.decisions.DeniedKeys(p, rule, all)
	_, _, allowed := e.decisions.Summarize(p, rule, fleet.MostKeys)
	for _, k := range slices.Concat(keys, allowed.Keys) {
		if k.Digest == digest {
			return k.Key
		}
	}
	bans, _, _ := e.api.FirstBans(ctx, mostLiveBans) // of a store that does not answer, none
	for i := range bans {
		if bans[i].Rule == rule && bans[i].Digest == digest {
			return bans[i].Key
		}
	}
	return a.keyOfPeers(ctx, rule, digest)
}

// rulesInWords describes the rules in force.
func (a *App) rulesInWords() wire.Rules {
	w := wire.Rules{Policy: a.reloads.number(), Rules: []wire.RuleInWords{}}
	for _, r := range a.engine.decider.Policy().Rules() {
		numbers := make([]string, len(r.Limits))
		for i, l := range r.Limits {
			numbers[i] = "rate"
			if _, concurrent := l.Algorithm().(sluice.Concurrency); concurrent {
				numbers[i] = "max"
			}
		}
		w.Rules = append(w.Rules, wire.RuleInWords{Rule: r.Name, State: stateOf(r), Bans: r.Ban != nil, Numbers: numbers, Words: describe.Rule(r, a.engine.store.InRedis())})
	}
	return w
}

// stateOf returns whether a rule is enforced, and whether it has a candidate.
func stateOf(r *policy.Rule) string {
	switch {
	case r.Shadow:
		return "shadow"
	case len(r.Candidate) > 0:
		return "candidate"
	default:
		return "enforced"
	}
}
