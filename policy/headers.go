package policy

import (
	"maps"
	"net/textproto"
	"slices"

	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/source"
)

// reads collects the headers that a policy reads. The value is true for a header that keys and conditions
// read, and false for a header that only holds a cost.
type reads map[string]bool

// add adds the header that holds a value of requests.
func (h reads) add(s Source, name string) {
	switch s {
	case FromHeader:
		h[textproto.CanonicalMIMEHeaderKey(name)] = true
	case FromCookie:
		h["Cookie"] = true
	case FromClaim:
		h["Authorization"] = true
	}
}

// addMatch adds the headers that a match reads.
func (h reads) addMatch(m *matcher) {
	for _, v := range m.reads(nil) {
		h.add(v.Source, v.Name)
	}
}

// addRule adds the headers that a rule reads.
func (h reads) addRule(r *rule) {
	h.addMatch(r.match)
	for i := range r.parts {
		if p := &r.parts[i]; p.Value == nil {
			h.add(p.Source, p.Name)
		}
	}
	if f := r.planFrom; f != nil && r.byPlan && f.part.Value == nil {
		h.add(f.part.Source, f.part.Name)
	}
	if c := &r.Cost; c.Source == CostHeader && !h[c.Header] {
		h[c.Header] = false
	}
}

// setReads fills in the headers that the policy reads.
func (p *Policy) setReads() {
	h := reads{}
	for i := range p.classes {
		h.addMatch(p.classes[i].match)
	}
	for _, r := range p.rules {
		h.addRule(r)
	}
	p.readHeaders = slices.Sorted(maps.Keys(h))
	for _, name := range p.readHeaders {
		if h[name] {
			p.valueHeaders = append(p.valueHeaders, name)
		}
	}
}

// RuleReads returns the named values of requests that a rule reads: in its match, its key and its cost. It
// returns nil for a rule that does not exist. Edges use it to refuse rules that read what their protocol
// does not have.
func (p *Policy) RuleReads(rule string) []source.Value {
	r := p.byName[rule]
	if r == nil {
		return nil
	}
	return r.reads(nil)
}

// reads appends the values that a rule reads.
func (r *rule) reads(read []source.Value) []source.Value {
	read = r.match.reads(read)
	for i := range r.parts {
		if part := &r.parts[i]; part.Value == nil {
			read = append(read, source.Value{Source: part.Source, Name: part.Name})
		}
	}
	if f := r.planFrom; f != nil && r.byPlan && f.part.Value == nil {
		read = append(read, source.Value{Source: f.part.Source, Name: f.part.Name})
	}
	if c := &r.Cost; c.Source == CostHeader {
		read = append(read, source.Value{Source: FromHeader, Name: c.Header})
	}
	return read
}

// UsesMarks reports whether a rule matches marked or unmarked requests. The store may then be called twice for a
// request: first about the rules that mark.
func (p *Policy) UsesMarks() bool {
	return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.match.usesMark })
}

// ClassReads returns the named values of requests that classes read in their matches.
func (p *Policy) ClassReads() (read []source.Value) {
	for i := range p.classes {
		read = p.classes[i].match.reads(read)
	}
	return read
}

// reads appends the values that a match reads, in its exceptions too.
func (m *matcher) reads(read []source.Value) []source.Value {
	for i := range m.values {
		read = append(read, source.Value{Source: m.values[i].source, Name: m.values[i].Name})
	}
	for _, c := range m.also {
		if r, ok := c.(condition.ValueReader); ok {
			read = append(read, r.Reads()...)
		}
	}
	for _, u := range m.unless {
		read = u.reads(read)
	}
	return read
}

// ReadNames returns the names of one source that rules and classes read, such as all names of cookies, each once and
// sorted.
func (p *Policy) ReadNames(s Source) (names []string) {
	read := p.ClassReads()
	for _, r := range p.rules {
		read = r.reads(read)
	}
	for _, v := range read {
		if v.Source == s {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ReadHeaders returns the headers of requests that the rules and classes read, in canonical form and
// sorted. Some servers treat X_Api_Key as X-Api-Key, so an edge removes other spellings of these headers
// from what clients send. The caller must not change them.
func (p *Policy) ReadHeaders() []string { return p.readHeaders }

// ValueHeaders returns the ReadHeaders without headers that only hold a cost: the headers that select a
// rule, a class or a key. If a client names one of them in its Connection header, the next proxy
// removes it, so an edge removes it before the rules read it. The caller must not change them.
func (p *Policy) ValueHeaders() []string { return p.valueHeaders }

// RequestHeaders returns, in canonical form, the headers that rules set on requests that are passed on.
// Edges remove these headers from the requests of clients, because clients could forge them.
func (p *Policy) RequestHeaders() []string { return p.requestHeaders }

// ReservedHeaders returns the RequestHeaders, and Sluice-Marked and Sluice-Degraded, which rules set by
// default, in canonical form and sorted. The caller must not change them.
func (p *Policy) ReservedHeaders() []string { return p.reserved }

// MarkHeaders returns, in canonical form, the headers that can mark a request: Sluice-Marked, and the
// headers that rules with the action Mark set instead.
func (p *Policy) MarkHeaders() []string { return p.markHeaders }
