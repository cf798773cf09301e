package policy

import (
	"fmt"
	"slices"
)

// Repeated is the choice for requests with a part of a rule's key several times, such as a header on
// two lines or ?k=a&k=b, or in a spelling that not all services read. Services disagree on the value:
// some read the first, some the last, and some all of them.
type Repeated uint8

const (
	// RepeatedDeny refuses the request. The default.
	RepeatedDeny Repeated = iota
	// RepeatedFirst counts by the first value. It is for services that read the first value.
	RepeatedFirst
	// RepeatedLast counts by the last value. It is for services that read the last value.
	RepeatedLast
	// RepeatedShared counts all such requests in the budget of requests without the part, also if OnMissing
	// is another choice than MissingShared.
	RepeatedShared
)

var repeatedNames = [...]string{RepeatedDeny: "deny", RepeatedFirst: "first", RepeatedLast: "last", RepeatedShared: "share"}

// String returns the choice in a word.
func (r Repeated) String() string {
	if int(r) < len(repeatedNames) {
		return repeatedNames[r]
	}
	return fmt.Sprintf("Repeated(%d)", uint8(r))
}

// Count says how often a request has a named value.
type Count uint8

const (
	// CountNone means that the request does not have the value.
	CountNone Count = iota
	// CountOne means that all services read the same value.
	CountOne
	// CountSeveral means that the request has several values of the name.
	CountSeveral
	// CountUnclear means that some services find a value, and others find another value or none.
	CountUnclear
)

// Found is what a request has for a name: its values, and whether all services read the same one.
type Found struct {
	// First and Last are the first and the last value. Both are the only value for CountOne.
	First, Last string
	Count       Count
}

// RepeatableValues is the interface of Values whose requests can have a value several times. Edges of
// HTTP implement it. A policy treats values of other edges as single.
type RepeatableValues interface {
	Values
	// Read returns the value of a header, cookie, parameter or claim.
	Read(s Source, name string) Found
	// ReadAll returns all values in their order. It is called only if there are several, or an unclear one.
	ReadAll(s Source, name string) []string
}

// Read returns what the request has for a name: a header, cookie, parameter, claim or attribute. Cookies
// are as CleanCookie returns them, and Authorization and Proxy-Authorization as CleanCredentials does. A signed
// token in any value is in one spelling, or unclear. The header Host is as CleanHost returns it. A
// header with bytes other than printable ASCII is unclear, because some services take them for spaces; so is one
// with spaces around it, which a folded line can add and services remove.
func (a *Attributes) Read(s Source, name string) Found {
	switch {
	case a.Values == nil:
		return Found{}
	case a.memo != nil:
		return a.memo.of(a, s, name).found
	}
	return a.read(s, name)
}

func (a *Attributes) read(s Source, name string) (r Found) {
	v := a.repeatable
	if !a.known {
		v, _ = a.Values.(RepeatableValues)
	}
	if v != nil && s != FromAttribute {
		r = v.Read(s, name)
	} else if text, ok := a.value(s, name); ok {
		r = Found{First: text, Last: text, Count: CountOne}
	}
	switch {
	case r.Count == CountNone:
	case s == FromHeader && name == "Host":
		r.First, r.Last = CleanHost(r.First), CleanHost(r.Last)
	case s == FromCookie || s == FromHeader || s == FromQuery:
		return cleanFound(s, name, r)
	}
	return r
}

// cleanValue returns a value in the one spelling in which keys and conditions compare it. certain is false
// if services read different values in it.
func cleanValue(s Source, name, value string) (clean string, certain bool) {
	switch {
	case s == FromCookie:
		return CleanCookie(value)
	case s == FromHeader && isCredentials(name):
		return CleanCredentials(value)
	case s == FromHeader:
		clean, certain = cleanToken(value)
		return clean, certain && isClearHeader(value)
	case s == FromQuery:
		return cleanParameter(value)
	}
	return value, true
}

// isClearHeader reports whether all services read the value of a header as it is.
func isClearHeader(value string) bool {
	return value == "" || value[0] > ' ' && value[len(value)-1] > ' ' && isPrintable(value)
}

// cleanFound returns values in one spelling.
func cleanFound(s Source, name string, r Found) Found {
	first, certain := cleanValue(s, name, r.First)
	if r.Count == CountOne {
		r.First, r.Last = first, first
		if !certain {
			r.Count = CountUnclear
		}
		return r
	}
	r.First = first
	r.Last, _ = cleanValue(s, name, r.Last)
	return r
}

// learn finds out once whether the values can be repeated.
func (a *Attributes) learn() {
	a.repeatable, _ = a.Values.(RepeatableValues)
	a.known = true
}

// readAll returns all values of a name that has several. certain is false if services read different
// values in one of them. Then the values behind an unclear cookie are left out: a long header can have
// thousands of cookies, each of which contains all cookies behind it.
func (a *Attributes) readAll(s Source, name string) (all []string, certain bool) {
	if a.memo != nil {
		return a.memo.of(a, s, name).list(a)
	}
	return a.list(s, name)
}

func (a *Attributes) list(s Source, name string) (all []string, certain bool) {
	v, ok := a.Values.(RepeatableValues)
	if !ok {
		r := a.Read(s, name) // one value in an unclear spelling
		return []string{r.First}, false
	}
	all = slices.Clone(v.ReadAll(s, name))
	certain = true
	for i := range all {
		if s == FromCookie && !isPlainCookie(trimCookie(all[i])) {
			return all[:i+1], false // nobody compares it
		}
		clean, ok := cleanValue(s, name, all[i])
		all[i], certain = clean, certain && ok
	}
	return all, certain
}

// valueOf returns the value of the part for what a request has.
func (p *Part) valueOf(r Found) partValue {
	v := partValue{text: r.First}
	if r.Count > CountOne {
		switch p.OnRepeated {
		case RepeatedFirst:
		case RepeatedLast:
			v.text = r.Last
		default:
			return partValue{repeated: true}
		}
	}
	if p.Source == FromHeader && isCredentials(p.Name) {
		v.text = keyOfCredentials(v.text)
	}
	v.ok = v.text != ""
	return v
}

// truth is whether a request fulfills a condition. The larger one of two is the more certain match.
type truth uint8

const (
	no truth = iota
	// maybe means that it depends on which of several values a service reads. A rule applies to such a
	// request, and an exception does not.
	maybe
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// matches compares the value of a request, or all its values if there are several.
func (m *valueMatcher) matches(a *Attributes) truth {
	r := a.Read(m.source, m.Name)
	present := len(m.OneOf)+len(m.Prefixes) == 0 // any value will do
	if r.Count != CountNone && (r.First == "" || r.Last == "") && (m.Absent || present) {
		return maybe // to some services, an empty value is a missing one
	}
	switch r.Count {
	case CountNone:
		return truthOf(m.Absent)
	case CountOne:
		return truthOf(!m.Absent && (present || m.accepts(r.First)))
	case CountSeveral:
		if m.Absent || present {
			return truthOf(!m.Absent)
		}
	default: // some services find no value
		if m.Absent || present {
			return maybe
		}
	}
	all, certain := a.readAll(m.source, m.Name)
	if !certain || slices.ContainsFunc(all, m.accepts) {
		return maybe
	}
	return no
}

// CertainMatcher is a StateMatcher that reports when its result depends on which of several values a
// service reads. A policy then applies the rule, and does not apply the exception or give the class.
type CertainMatcher interface {
	StateMatcher
	// MatchesCertainly is called instead of MatchesState.
	MatchesCertainly(a *Attributes, s State) (matches, certain bool)
}

// ValueReader is the interface of a Matcher that lists the headers, cookies, parameters and claims that
// it reads. Edges then keep clients from sending them in other spellings, see Policy.ReadHeaders.
type ValueReader interface {
	Matcher
	// Reads returns the sources and names. It always returns the same.
	Reads() []ValueName
}

// ValueName names a value of requests.
type ValueName struct {
	Source Source
	Name   string
}
