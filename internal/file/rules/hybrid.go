package rules

import (
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
)

// Hybrid decides the limits of a rule in each server's own process, on units that the store granted to
// it beforehand. It needs a store in Redis. Requests that may wait for their turn, and requests that also match a rule
// without it, are decided by the store. See docs/hybrid.md.
type Hybrid struct {
	// Enabled is true for a rule that is decided so. Any other setting implies it.
	Enabled bool
	// Sync is how often a server reports to the store what it used, and gets new units: 10ms to 10s.
	// Default: 100ms.
	Sync time.Duration `yaml:"sync"`
	// Life is how long a server may spend granted units while it cannot reach the store: four times sync or more, up to
	// 1m. Default: 2s, or four times sync if that is longer.
	Life time.Duration `yaml:"life"`
	// Stranded is the share of each limit that may be granted at once, to all servers together. So much may be left
	// unused. Default: 5%.
	Stranded reader.Share `yaml:"stranded"`
	// Overdraft is how far the limit may be exceeded, by all servers together. Default: 0.
	Overdraft reader.Portion `yaml:"overdraft"`
	// Credit is what each server may admit for a key before the store has granted it any units. All servers together may
	// exceed the limit by the credit of each. Default: 0.
	Credit reader.Portion `yaml:"credit"`
}

// given reports whether the limits of the rule are hybrid: all of them, because one exact limit makes every decision
// of the rule exact.
func (h Hybrid) given() bool { return h != Hybrid{} }

// Written implements [reader.Written].
func (h Hybrid) Written() string {
	if h == (Hybrid{Enabled: true}) {
		return "true"
	}
	return ""
}

// Switch implements [reader.Switch].
func (h *Hybrid) Switch() *bool { return &h.Enabled }

// Unknown has a remedy for the names that other programs use.
func (*Hybrid) Unknown(name, text string) string {
	switch name {
	case "sync_rate", "interval", "sync_interval":
		return `did you mean "sync"?`
	case "ttl", "lease":
		return `did you mean "life"?`
	}
	return ""
}

// misfit is why the terms do not fit a limit. The setting is the term at fault; empty if the limit
// cannot be hybrid at all.
type misfit struct{ setting, problem, remedy string }

// String describes the misfit, for an error whose position is not the setting's.
func (m *misfit) String() string {
	if m.setting == "" {
		return "hybrid " + m.problem
	}
	return m.setting + " " + m.problem
}

// inFiles replaces the names of fields by the names of settings.
var inFiles = strings.NewReplacer("Hybrid", "hybrid", "Sync", "sync", "CountDenied", "count_denied", "MinInterval", "min_interval")

// apply returns a limit with the terms.
func (h *Hybrid) apply(l *sluice.Limit) (*sluice.Limit, *misfit) {
	if !h.given() {
		return l, nil
	}
	terms := sluice.Hybrid{
		Sync: h.Sync, Life: h.Life, Overdraft: h.Overdraft.Of(l.Capacity()), Credit: h.Credit.Of(l.Capacity()),
	}
	if h.Stranded.Parts > 0 {
		terms.Stranded = float64(h.Stranded.Of) / float64(h.Stranded.Parts)
	}
	with, err := l.WithHybrid(terms)
	var bad *sluice.LimitError
	if !errors.As(err, &bad) {
		return with, nil
	}
	m := &misfit{problem: inFiles.Replace(bad.Problem), remedy: inFiles.Replace(bad.Remedy)}
	if f, ok := reflect.TypeFor[Hybrid]().FieldByName(strings.TrimPrefix(bad.Field, "Hybrid.")); ok {
		m.setting = f.Tag.Get("yaml")
	}
	if m.setting == "overdraft" || m.setting == "credit" {
		m.remedy += ", or a share such as 100%, which fits each limit"
	}
	return nil, m
}

// override returns the limit of an override with the terms. It returns the limit as it is if the share of it that may be
// granted is less than one unit: Warnings reports such overrides.
func (h *Hybrid) override(l *sluice.Limit) (*sluice.Limit, *misfit) {
	with, bad := h.apply(l)
	if bad != nil && bad.setting == "stranded" {
		return l, nil
	}
	return with, bad
}

// hybrid gives the terms of the rule to the limit at a path. If the terms do not fit, it reports that, and returns
// nil.
func (r *Rule) hybrid(s *reader.Source, path, of string, l *sluice.Limit) *sluice.Limit {
	with, bad := r.Hybrid.apply(l)
	if bad == nil {
		return with
	}
	at, problem := path+".hybrid", bad.problem
	if bad.setting != "" {
		at += "." + bad.setting
	}
	if of != path+".limit" {
		problem += " (for " + strings.TrimPrefix(of, path+".") + ")"
	}
	s.Follow(at, problem, bad.remedy)
	return nil
}
