package policy

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/internal/spelling"
)

// Attributes describe a request to a policy. Edges fill them in once for each request. The policy reads
// only what its rules need, and keeps nothing.
// They belong to one request, and are not safe for concurrent use.
type Attributes struct {
	// Method is the request's method, in upper case: see CheckMethod.
	Method string
	// Host is the host that the request is for. The policy writes it in lower case, without a port and a dot at its
	// end, so an edge may give it in any case and with a port: see CheckHost.
	Host string
	// Path is the request's path as it came, escaped: for net/http, r.URL.EscapedPath(). The policy
	// cleans it as Paths.Clean does, which does not change a clean path. It also computes the path
	// variants: see Paths.
	Path string
	// ClientIP is the address of the client: the peer's address, or the address that trusted proxies
	// report. Invalid if there is none.
	ClientIP netip.Addr
	// Values returns the named parts of the request, such as headers; nil for a request without any.
	Values Values
	// Marked says that an earlier hop has marked the request. Only a trusted hop may mark. Marks by
	// rules of the policy are in the verdict.
	Marked bool
	// TrustPlan says that the request comes from a hop that may name its plan, in a header or in a claim of a token
	// that was verified. Otherwise clients could choose their plans, so such a plan does not count: see
	// Options.PlanFrom.
	TrustPlan bool
	// RequestBytes is the size of the request's body, or -1 if it is known only when the body has been read.
	RequestBytes int64
	// Cost is how many units the request takes from rules without a cost of their own. Zero means one, and NoCost
	// means none.
	Cost int64
	// MaxWait is the longest delay that the request accepts, sluice.NoWait for none.
	// Zero leaves it to the rules and their limits. If a rule has a MaxWait too, the shorter one
	// holds.
	MaxWait time.Duration
	// Hold gives the costs back that nobody settles within this time: see sluice.Request.Hold. Give it only if the caller
	// settles each charge, as a gate does. Such limits accept no wait. Limits that cannot owe units stay charged. Default:
	// all stay charged.
	Hold time.Duration

	// ReadOnce keeps what was read of the Values for all rules. Set it if the values are long.
	ReadOnce bool

	// repeatable are the Values if they can be repeated. It is valid if known is set: a policy looks once
	// for each request.
	repeatable RepeatableValues
	known      bool
	// modelCost says how the policy reads the attribute of the model; nil for the defaults.
	modelCost *ModelCost
	// memo keeps what was read; nil unless the request is matched several times.
	memo *memo
}

// Values finds the named parts of a request. ok is false for a missing part; an empty part is "" and
// true. Names of headers are in the form of net/http's CanonicalHeaderKey. If requests can have
// several values of a name, implement RepeatableValues too.
// It belongs to one request, and need not be safe for concurrent use.
type Values interface {
	Header(name string) (value string, ok bool)
	Cookie(name string) (value string, ok bool)
	Query(name string) (value string, ok bool)
}

// ClaimValues is an optional interface of Values. It finds the claims of a token for FromClaim, such as
// "sub" of a JWT. The edge, or a gateway in front of it, must have verified the token: clients choose
// the claims of an unverified token.
// It belongs to one request, and need not be safe for concurrent use.
type ClaimValues interface {
	Claim(name string) (value string, ok bool)
}

// AttributeValues is an optional interface of Values. It finds named values of other kinds: values of a
// protocol that is not HTTP, or the edge's own values.
// It belongs to one request, and need not be safe for concurrent use.
type AttributeValues interface {
	Attribute(name string) (value string, ok bool)
}

// value returns a named value of a request.
func (a *Attributes) value(s Source, name string) (string, bool) {
	if a.Values == nil {
		return "", false
	}
	switch s {
	case FromHeader:
		return a.Values.Header(name)
	case FromCookie:
		return a.Values.Cookie(name)
	case FromQuery:
		return a.Values.Query(name)
	case FromClaim:
		if v, ok := a.Values.(ClaimValues); ok {
			return v.Claim(name)
		}
	case source.Attribute:
		if v, ok := a.Values.(AttributeValues); ok {
			return v.Attribute(name)
		}
	}
	return "", false
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
	// Count says how many values there are.
	Count Count
}

// RepeatableValues is the interface of Values whose requests can have a value several times. Edges of
// HTTP implement it. A policy treats values of other edges as single.
// It belongs to one request, and need not be safe for concurrent use.
type RepeatableValues interface {
	Values
	// Read returns the value of a header, cookie, parameter or claim.
	Read(s Source, name string) Found
	// ReadAll returns all values in their order. It is called only if there are several, or an unclear one.
	ReadAll(s Source, name string) []string
}

// Read returns what the request has for a name: a header, cookie, parameter, claim or attribute. Each value is in one
// spelling: a cookie without quotes, Authorization with the usual case of its scheme, a signed token with the one valid
// form of its base64, and the header Host as rules see hosts. A value that services read differently is unclear. A
// header with bytes other than printable ASCII is unclear, because some services take them for spaces; so is one with
// spaces around it, which a folded line can add and services remove.
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
	if s == source.Attribute && name == ModelAttribute {
		return a.readModel()
	}
	v := a.repeatable
	if !a.known {
		v, _ = a.Values.(RepeatableValues)
	}
	if v != nil && s != source.Attribute {
		r = v.Read(s, name)
	} else if text, ok := a.value(s, name); ok {
		r = Found{First: text, Last: text, Count: CountOne}
	}
	switch {
	case r.Count == CountNone:
	case s == FromHeader && name == "Host":
		r.First, r.Last = spelling.Host(r.First), spelling.Host(r.Last)
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
		return spelling.Cookie(value)
	case s == FromHeader && spelling.IsCredentials(name):
		return spelling.Credentials(value)
	case s == FromHeader:
		return spelling.Header(value)
	case s == FromQuery:
		return spelling.Parameter(value)
	case s == source.Attribute && name == ModelAttribute:
		return strings.ToLower(value), true
	}
	return value, true
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
	if !ok || s == source.Attribute {
		r := a.Read(s, name) // one value in an unclear spelling
		return []string{r.First}, false
	}
	all = slices.Clone(v.ReadAll(s, name))
	certain = true
	for i := range all {
		if s == FromCookie && !spelling.IsPlainCookie(all[i]) {
			return all[:i+1], false // nobody compares it
		}
		clean, ok := cleanValue(s, name, all[i])
		all[i], certain = clean, certain && ok
	}
	return all, certain
}

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
