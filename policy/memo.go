package policy

// memo keeps the values of a request that rules have read. A path can have dozens of variants, all of which are
// matched against the rules, and a client can send values that take long to read. So each is read once.
type memo []memoEntry

// memoEntry is what a request has for a name.
type memoEntry struct {
	source Source
	name   string
	found  Found
	// all and certain are what readAll returns, if listed is set.
	all             []string
	certain, listed bool
}

// of returns the entry of a name, which is valid until the next call.
func (m *memo) of(a *Attributes, s Source, name string) *memoEntry {
	for i := range *m {
		if e := &(*m)[i]; e.source == s && e.name == name {
			return e
		}
	}
	*m = append(*m, memoEntry{source: s, name: name, found: a.read(s, name)})
	return &(*m)[len(*m)-1]
}

// list returns all values of the name.
func (e *memoEntry) list(a *Attributes) (all []string, certain bool) {
	if !e.listed {
		e.all, e.certain = a.list(e.source, e.name)
		e.listed = true
	}
	return e.all, e.certain
}
