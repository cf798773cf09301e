package httplimit

import (
	"strings"

	"github.com/sluicehq/sluice/policy"
)

var (
	_ policy.RepeatableValues = values{}
	_ policy.RepeatableValues = ownValues{}
)

// Read returns the first and the last value of a name, and how often the request has it.
func (v values) Read(s policy.Source, name string) policy.Found {
	switch s {
	case policy.FromHeader:
		return v.readHeader(name)
	case policy.FromQuery:
		return v.readQuery(name, nil)
	case policy.FromCookie:
		return v.readCookie(name, nil)
	case policy.FromClaim:
		return v.readClaim(name)
	}
	return policy.Found{}
}

// ReadAll returns all values of a name.
func (v values) ReadAll(s policy.Source, name string) (all []string) {
	switch s {
	case policy.FromHeader:
		return v.r.Header[name]
	case policy.FromQuery:
		v.readQuery(name, &all)
	case policy.FromCookie:
		v.readCookie(name, &all)
	}
	return all
}

// Read is as for values, except for claims that the program finds itself.
func (v ownValues) Read(s policy.Source, name string) policy.Found {
	if s == policy.FromClaim && v.claim != nil {
		return one(v.claim(v.r, name))
	}
	return v.values.Read(s, name)
}

// one returns a single value as found.
func one(text string, ok bool) policy.Found {
	if !ok {
		return policy.Found{}
	}
	return policy.Found{First: text, Last: text, Count: policy.CountOne}
}

// readHeader reads a header. A line with commas is one value, because services get the same line.
func (v values) readHeader(name string) policy.Found {
	switch lines := v.r.Header[name]; {
	case name == "Host":
		return one(v.Header(name)) // over HTTP/2 a header may have another one
	case len(lines) == 0:
		return policy.Found{}
	case len(lines) == 1:
		return policy.Found{First: lines[0], Last: lines[0], Count: policy.CountOne}
	default:
		return policy.Found{First: lines[0], Last: lines[len(lines)-1], Count: policy.CountSeveral}
	}
}

// tally collects the values of a name.
type tally struct {
	found   policy.Found
	unclear bool
	all     *[]string // nil if only the result is of interest
}

// add adds a value. An unclear value is one that not all services read.
func (t *tally) add(value string, unclear bool) {
	r := &t.found
	if r.Count == policy.CountNone {
		r.First, r.Count = value, policy.CountOne
	} else {
		r.Count = policy.CountSeveral
	}
	r.Last = value
	t.unclear = t.unclear || unclear
	if t.all != nil {
		*t.all = append(*t.all, value)
	}
}

// result returns what was found.
func (t *tally) result() policy.Found {
	if t.unclear {
		t.found.Count = policy.CountUnclear
	}
	return t.found
}

// isSameName reports whether some services take one name of a parameter or cookie for another one: without
// regard to case, a name in brackets for the list or object of the name before them, and in PHP dots and
// spaces for underscores. A NUL ends the name in some.
func isSameName(sent, name string) bool {
	sent = strings.TrimLeft(sent, " ")
	if len(sent) < len(name) {
		return false
	}
	for i := range len(name) {
		if plainByte(sent[i]) != plainByte(name[i]) {
			return false
		}
	}
	return len(sent) == len(name) || sent[len(name)] == '[' || sent[len(name)] == 0
}

// plainByte returns the byte that is equal to all bytes that services confuse with it in names.
func plainByte(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	case c == '.' || c == ' ' || c == '[':
		return '_'
	}
	return c
}
