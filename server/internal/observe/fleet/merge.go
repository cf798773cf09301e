package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// MostRules and MostKeys bound what a server shares.
const (
	MostRules = 200
	MostKeys  = 200
)

// Part is what a server does, for other servers.
type Part struct {
	wire.Live

	// Share is the part of each limit of this server: Pressure is divided by it.
	Share float64
	// RulesSum is equal on servers with equal rules.
	RulesSum string
	// Tables have more keys than Live, some with their values.
	Tables [kinds]Table
}

// Kind is what the keys of a Table are counted by.
type Kind int

// The kinds of tables.
const (
	Denied  Kind = iota // denials
	Newly               // requests that only the candidate of the rule would have denied
	Allowed             // requests of the sample of allowed ones
	kinds
)

// Table has counted keys of a server.
type Table struct {
	Keys []Key
	// Missed is the most that a key of a rule may have that is not in Keys.
	Missed map[string]uint64
}

// Key is a key of a rule.
type Key struct {
	wire.DeniedKey

	// ID is equal on all servers of the store.
	ID string
}

// Sound reports whether an answer of another server has a form that can be added.
func (s *Part) Sound() bool {
	for i := range s.Rules {
		if len(s.Rules[i].Totals) != len(s.Figures) {
			return false
		}
	}
	large := func(t Table) bool { return len(t.Keys) > MostKeys }
	return len(s.Rules) <= MostRules && !slices.ContainsFunc(s.Tables[:], large) && len(s.Hybrid) <= MostRules
}

// Add adds the numbers of other servers to a frame, except their keys. The server of the frame has a share of each limit.
func Add(l *wire.Live, share float64, others []*Part) {
	for i := range l.Rules {
		l.Rules[i].Pressure *= share
	}
	for _, p := range others {
		addRules(l, p)
		addHybrid(l, p)
	}
}

// addRules adds the requests of rules. Pressures are sums too: each server divides its own demand by its own share.
func addRules(l *wire.Live, p *Part) {
	at := map[string]int{}
	for i := range l.Rules {
		at[l.Rules[i].Rule] = i
	}
	for _, r := range p.Rules {
		i, known := at[r.Rule]
		if !known {
			i = len(l.Rules)
			l.Rules = append(l.Rules, wire.LiveRule{Rule: r.Rule, State: r.State, Totals: make([]uint64, len(l.Figures))})
		}
		l.Rules[i].Pressure += r.Pressure * p.Share
		l.Rules[i].Units += r.Units
		for f, name := range p.Figures {
			if j := slices.Index(l.Figures, name); j >= 0 {
				l.Rules[i].Totals[j] += r.Totals[f]
			}
		}
	}
}

// addHybrid adds what servers hold of hybrid limits. What all processes hold together is the same number on each server.
func addHybrid(l *wire.Live, p *Part) {
	for _, h := range p.Hybrid {
		i := slices.IndexFunc(l.Hybrid, func(x wire.HybridLimit) bool { return x.Limit == h.Limit })
		if i < 0 {
			l.Hybrid = append(l.Hybrid, h)
			continue
		}
		x := &l.Hybrid[i]
		x.Keys, x.Escrow, x.Excess, x.Overdraft = max(x.Keys, h.Keys), max(x.Escrow, h.Escrow), max(x.Excess, h.Excess), max(x.Overdraft, h.Overdraft)
		x.Unspent, x.Unreported = x.Unspent+h.Unspent, x.Unreported+h.Unreported
		x.Local, x.Cached, x.Exact = x.Local+h.Local, x.Cached+h.Cached, x.Exact+h.Exact
		if h.LastSyncMS != nil && (x.LastSyncMS == nil || *h.LastSyncMS > *x.LastSyncMS) {
			x.LastSyncMS = h.LastSyncMS // the worst
		}
	}
}

// Keys adds the tables of a kind of servers, of this one first. A server that does not list a key may have counted as
// many denials as it can have missed, so these are in the error.
func Keys(parts []*Part, kind Kind) []wire.DeniedKey {
	type merged struct {
		wire.DeniedKey

		in []bool // by part
	}
	at := map[string]*merged{}
	var all []*merged
	for p, part := range parts {
		for _, k := range part.Tables[kind].Keys {
			id := k.Rule + " " + k.ID
			m := at[id]
			if m == nil {
				m = &merged{k.DeniedKey, make([]bool, len(parts))}
				m.Denials, m.Error, m.Candidate = 0, 0, nil
				at[id], all = m, append(all, m)
			}
			if m.in[p] {
				continue // it is given twice
			}
			m.in[p] = true
			if k.LastMS < m.LastMS {
				m.Limit, m.Role, m.Reason, m.Plan = k.Limit, k.Role, k.Reason, k.Plan
				m.Now = cmp.Or(k.Now, m.Now)
			}
			if m.Key == nil {
				m.Key = k.Key
			}
			m.Denials, m.Error = m.Denials+k.Denials, m.Error+k.Error
			m.FirstMS, m.LastMS, m.Now = max(m.FirstMS, k.FirstMS), min(m.LastMS, k.LastMS), cmp.Or(m.Now, k.Now)
			if t := k.Candidate; t != nil {
				sum := *cmp.Or(m.Candidate, &wire.Trial{}) // the parts keep theirs
				m.Candidate = &wire.Trial{Compared: sum.Compared + t.Compared, WouldDeny: sum.WouldDeny + t.WouldDeny}
			}
		}
	}
	keys := make([]wire.DeniedKey, len(all))
	for i, m := range all {
		for p, in := range m.in {
			if n := parts[p].Tables[kind].Missed[m.Rule]; !in {
				m.Denials, m.Error = m.Denials+n, m.Error+n
			}
		}
		keys[i] = m.DeniedKey
	}
	const recent = 60_000 // ms; the order is as for one server
	slices.SortFunc(keys, func(a, b wire.DeniedKey) int {
		if now := a.LastMS < recent; now != (b.LastMS < recent) {
			if now {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Denials-b.Error, a.Denials-a.Error), cmp.Compare(a.LastMS, b.LastMS), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Digest, b.Digest))
	})
	return keys
}

// CountFreed notes in rules how many of some keys their candidates would free.
func CountFreed(rules []wire.LiveRule, keys []wire.DeniedKey) {
	for i := range rules {
		r := &rules[i]
		r.Compared, r.Freed = 0, 0
		for j := range keys {
			if k := &keys[j]; k.Rule == r.Rule && k.Candidate != nil {
				if r.Compared++; k.Candidate.WouldDeny == 0 {
					r.Freed++
				}
			}
		}
	}
}

// AddHistory adds the steps of another server. Their times count from now, because the clocks of machines differ. A
// step is added to the step that has its middle, so a request may be in the step beside its own.
func AddHistory(h, other *wire.History) {
	const year = 365 * 24 * 3600 * 1000
	if ago := other.AtMS - other.EndMS; other.StepMS != h.StepMS || other.Steps < 0 || other.Steps > 1440 || ago < -year || ago > year {
		return
	}
	if grow := other.Steps + 1 - h.Steps; grow > 0 { // it has run for longer; its first step may begin in another one
		for name := range h.Figures {
			h.Figures[name] = append(make([]uint32, grow), h.Figures[name]...)
		}
		h.Steps += grow
	}
	h.Known = h.Known || other.Known
	// The middle of its last step was so long before the end of the last step here.
	last := h.EndMS - h.AtMS + other.AtMS - other.EndMS + h.StepMS/2
	for name, column := range other.Figures {
		if len(column) != other.Steps || len(name) > 32 || len(h.Figures) > 32 {
			continue
		}
		if h.Figures[name] == nil {
			h.Figures[name] = make([]uint32, h.Steps)
		}
		for i, n := range column {
			back := max(0, last+int64(other.Steps-1-i)*h.StepMS) / h.StepMS
			if at := h.Steps - 1 - int(back); at >= 0 { // what is older is left out
				h.Figures[name][at] = uint32(min(uint64(h.Figures[name][at])+uint64(n), math.MaxUint32))
			}
		}
	}
}
