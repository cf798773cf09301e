package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Missing says what becomes of a request that lacks a part of its key.
type Missing = policy.Missing

// The choices for a missing part.
const (
	// MissingShared gives all requests that lack the part one budget, which no value
	// of the part shares.
	MissingShared = policy.MissingShared
	// MissingSkip lets the request pass and does not count it. Where clients choose
	// whether to send the part, they choose whether they are limited.
	MissingSkip = policy.MissingSkip
	// MissingDeny refuses the request, with status 400.
	MissingDeny = policy.MissingDeny
)

// Part is one part of a key: something of a request that tells clients apart, and what to do
// without it. A part that is there but empty is missing. Make one with PeerIP, ClientIP.Part,
// Header and so on, or PartFunc.
type Part struct {
	source  policy.Source
	name    string
	value   func(r *http.Request) (string, bool)
	missing Missing
	err     error
}

// PartFunc is a part that a function finds. What it returns with false, or empty,
// is missing. The name is for the answer to those who lack it.
func PartFunc(name string, value func(r *http.Request) (string, bool), missing Missing) Part {
	p := Part{name: name, value: value, missing: missing}
	if value == nil {
		p.err = errors.New("PartFunc has no function; give one that finds the part in a request")
	}
	return p
}

// Header is the first header line of a name.
func Header(name string, missing Missing) Part {
	key := textproto.CanonicalMIMEHeaderKey(name)
	p := Part{source: policy.FromHeader, name: key, missing: missing}
	if name == "" {
		p.err = errors.New("Header has no name; give that of a header")
	}
	p.value = func(r *http.Request) (string, bool) { return values{r}.Header(key) }
	return p
}

// Cookie is the value of the first cookie of a name.
func Cookie(name string, missing Missing) Part {
	p := Part{source: policy.FromCookie, name: name, missing: missing}
	if name == "" {
		p.err = errors.New("Cookie has no name; give that of a cookie")
	}
	p.value = func(r *http.Request) (string, bool) { return values{r}.Cookie(name) }
	return p
}

// Query is the value of the first query parameter of a name.
func Query(name string, missing Missing) Part {
	p := Part{source: policy.FromQuery, name: name, missing: missing}
	if name == "" {
		p.err = errors.New("Query has no name; give that of a query parameter")
	}
	p.value = func(r *http.Request) (string, bool) { return values{r}.Query(name) }
	return p
}

// Method is the request's method.
func Method() Part {
	return Part{source: policy.FromMethod, value: func(r *http.Request) (string, bool) {
		if r.Method == "" {
			return http.MethodGet, true
		}
		return r.Method, true
	}}
}

// Path is the path, in the one spelling that policy.Paths gives it.
func Path() Part {
	return Part{source: policy.FromPath, value: func(r *http.Request) (string, bool) {
		if r.URL == nil {
			return "/", true
		}
		return policy.Paths{}.Clean(r.URL.EscapedPath()), true
	}}
}

// Host is the host asked for, in the one spelling that policy.CleanHost gives it.
func Host(missing Missing) Part {
	return Part{source: policy.FromHost, missing: missing, value: func(r *http.Request) (string, bool) {
		return policy.CleanHost(r.Host), true
	}}
}

// PathValue is the segment of the path that the pattern of a ServeMux calls
// {name}. The middleware must be inside the mux for it, around the handler.
func PathValue(name string, missing Missing) Part {
	p := Part{source: policy.FromParam, name: name, missing: missing}
	if name == "" {
		p.err = errors.New("PathValue has no name; give that of a wildcard of the pattern")
	}
	p.value = func(r *http.Request) (string, bool) { return r.PathValue(name), true }
	return p
}

// Constant is the same for all requests: alone, one budget for everybody.
func Constant(text string) Part {
	p := Part{source: policy.FromConstant, name: text}
	if text == "" {
		p.err = errors.New("Constant is empty; give a text")
	}
	p.value = func(*http.Request) (string, bool) { return text, true }
	return p
}

func (p *Part) check() error {
	switch {
	case p.err != nil:
		return p.err
	case p.value == nil:
		return errors.New("is the zero Part; make one with PeerIP, Header and so on")
	case p.missing > MissingDeny:
		return fmt.Errorf("is told %v for requests without it; give MissingShared, MissingSkip or MissingDeny", p.missing)
	}
	return nil
}

// find returns the value of the part, and whether there is one.
func (p *Part) find(r *http.Request) (string, bool) {
	value, ok := p.value(r)
	return value, ok && value != ""
}

// outcome is how the making of a key ended.
type outcome uint8

const (
	keyMade outcome = iota
	keySkipped
	keyRefused
)

// makeKey returns the key of a request, or the part for lack of which it is
// refused. Refusing wins over skipping.
func makeKey(parts []Part, r *http.Request) (sluice.Key, *Part, outcome) {
	if len(parts) == 1 {
		if value, ok := parts[0].find(r); ok {
			return sluice.StringKey(value), nil, keyMade
		}
	}
	var (
		space  [128]byte
		text   = space[:0]
		lacks  []byte // which parts are missing, nil for none
		result = keyMade
	)
	for i := range parts {
		p := &parts[i]
		value, ok := p.find(r)
		if !ok {
			switch p.missing {
			case MissingDeny:
				return sluice.Key{}, p, keyRefused
			case MissingSkip:
				result = keySkipped
			default:
				if lacks == nil {
					lacks = []byte(strings.Repeat("+", len(parts)))
				}
				lacks[i] = '-'
			}
			value = ""
		}
		text = sluice.AppendKeyPart(text, value)
	}
	n := len(parts)
	if lacks != nil {
		// One part more than any key without gaps has: no value can be equal to a gap.
		text = sluice.AppendKeyPart(text, string(lacks))
		n++
	}
	if result != keyMade {
		return sluice.Key{}, nil, result
	}
	return sluice.EncodedKey(string(text), n), nil, keyMade
}
