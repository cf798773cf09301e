package rules

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// The figures by which warnings judge whether hybrid terms are worth it.
const (
	// busy is how many requests for a key a server must get in a sync, so that it is granted units.
	busy = 8
	// fewSyncs is how many syncs a window should last.
	fewSyncs = 5
)

// warnHybrid reports hybrid rules whose terms have no effect, or little.
func (f *File) warnHybrid(s *reader.Source, d Deployment) {
	if !slices.ContainsFunc(f.Rules, func(r Rule) bool { return r.Hybrid.given() }) {
		return
	}
	o, _ := f.options(f.Blank())
	for i := range f.Rules {
		r, path := &f.Rules[i], fmt.Sprintf("rules[%d]", i)
		if !r.Hybrid.given() {
			continue
		}
		at, beside := path+".hybrid", f.exactBeside(i)
		switch {
		case d.Memory:
			s.FollowKey(at, "has no effect with the memory store, which decides in this process anyway", "remove it, or give store: {redis: {…}}")
		case r.MaxWait != nil && *r.MaxWait > 0:
			s.FollowKey(at, "has no effect with max_wait, because the store decides about all requests that may wait", "remove one of them")
		case beside >= 0:
			s.FollowKey(at, fmt.Sprintf("has no effect: its requests match rule %s too, which is not hybrid, and the store decides about all limits of a request together", reader.Quote(f.Rules[beside].Name)),
				"make both rules hybrid, or let the other rule match fewer requests")
		default:
			r.warnTerms(s, path, o.Rules[i].Limits)
			warnOverrides(s, path, &o.Rules[i])
		}
	}
}

// exactBeside returns a rule whose limits are not hybrid and that matches all requests of rule i; -1 if there is none.
func (f *File) exactBeside(i int) int {
	return slices.IndexFunc(f.Rules, func(r Rule) bool {
		everything := reflect.ValueOf(r.Match).IsZero() || reflect.DeepEqual(r.Match, f.Rules[i].Match)
		skips := r.Allow != nil || slices.ContainsFunc(r.Key, func(k KeyPart) bool { return k.OnMissing == policy.MissingSkip })
		if r.Descriptor != nil || f.Rules[i].Descriptor != nil {
			return false // one rule applies to each descriptor
		}
		return everything && !skips && !r.Hybrid.given() && len(r.LimitsGiven()) > 0
	})
}

// warnTerms reports terms that do not suit the limits of the rule.
func (r *Rule) warnTerms(s *reader.Source, path string, limits []*sluice.Limit) {
	for i, l := range limits {
		setting, problem, remedy := r.unsuited(l)
		if problem == "" {
			continue
		}
		at := path + ".hybrid"
		if s.Has(at + setting) {
			at += setting
		}
		if len(limits) > 1 {
			problem += fmt.Sprintf(" (for limits[%d])", i)
		}
		s.FollowKey(at, problem, remedy)
	}
}

// warnOverrides reports overrides that are too small to be hybrid.
func warnOverrides(s *reader.Source, path string, r *policy.Rule) {
	small, all := 0, 0
	count := func(o policy.Override) bool {
		if all++; slices.ContainsFunc(o.Limits, func(l *sluice.Limit) bool { return l.Hybrid() == nil }) {
			small++
		}
		return true
	}
	for _, o := range r.Overrides {
		count(o)
	}
	if r.MoreOverrides != nil {
		r.MoreOverrides(count)
	}
	if small > 0 {
		s.FollowKey(path+".hybrid", fmt.Sprintf("has no effect on %d of %d overrides: the share of their limits that may be granted is less than one unit", small, all),
			"give a larger share as stranded, or accept that the store decides about these keys")
	}
}

// unsuited returns why the terms have no effect on a limit, or little; empty if they suit it.
func (r *Rule) unsuited(l *sluice.Limit) (setting, problem, remedy string) {
	h, escrow, capacity := l.Hybrid(), l.Escrow(), l.Capacity()
	cost := max(1, cmp.Or(r.Cost.Estimate, r.Cost.Units))
	// The smallest percentage with which a busy server gets units.
	percent := (100*busy*cost + capacity - 1) / capacity
	more := fmt.Sprintf("give stranded: %d%% or more, or remove hybrid", percent)
	if percent > 100 {
		more = "remove hybrid, because the limit is too small"
	}
	_, bucket := l.Algorithm().(sluice.TokenBucket)
	perSync := float64(l.Rate().Count()) * h.Sync.Seconds() / l.Rate().Period().Seconds()
	switch {
	case escrow < cost:
		return ".stranded", fmt.Sprintf("lets %d of %d units be granted at once, less than a request takes, so the store decides about each request", escrow, capacity), more
	case !bucket && l.Rate().Period() < fewSyncs*h.Sync:
		return ".sync", fmt.Sprintf("is %v, and the window lasts %v: in fewer than %d syncs, much of the limit is left unused", h.Sync, l.Rate().Period(), fewSyncs),
			"give a shorter sync, or remove hybrid"
	case r.Hybrid.Overdraft != (reader.Portion{}) && h.Overdraft == 0:
		return ".overdraft", fmt.Sprintf("is less than one unit of %d", capacity), "give more, or remove it"
	case r.Hybrid.Credit != (reader.Portion{}) && h.Credit == 0:
		return ".credit", fmt.Sprintf("is less than one unit of %d", capacity), "give more, or remove it"
	case h.Credit >= cost:
		return "", "", "" // it has an effect on each key
	case perSync < float64(busy*cost):
		return "", fmt.Sprintf("has little effect: a server decides by itself only while it gets %d requests for a key in each sync of %v, and the limit admits %.3g in that time", busy, h.Sync, perSync/float64(cost)),
			longer(l, busy*cost)
	case escrow < busy*cost:
		return ".stranded", fmt.Sprintf("lets %d of %d units be granted at once, to all servers together, so the store decides about most requests", escrow, capacity), more
	}
	return "", "", ""
}

// longest is the longest sync.
const longest = 10 * time.Second

// longer returns how to give the limit a sync in which it admits so many units.
func longer(l *sluice.Limit, units int64) string {
	needed := time.Duration(float64(units) * float64(l.Rate().Period()) / float64(l.Rate().Count()))
	if needed = needed.Truncate(10*time.Millisecond) + 10*time.Millisecond; needed > longest {
		return "remove hybrid, because the limit is too small"
	}
	return fmt.Sprintf("give sync: %v or more, or remove hybrid", needed)
}
