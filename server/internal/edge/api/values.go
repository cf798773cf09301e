package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
	"golang.org/x/net/http/httpguts"
)

// named are named values. A name can have several: as a list, or as a name that is given twice.
type named map[string][]string

// UnmarshalJSON reads an object whose values are texts or lists of texts.
func (n *named) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	first, err := d.Token()
	switch {
	case err != nil:
		return err
	case first == nil:
		return nil
	case first != json.Delim('{'):
		return &json.UnmarshalTypeError{Value: kindOf(data), Type: reflect.TypeFor[string]()}
	}
	*n = named{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		var one string
		var all []string
		switch {
		case json.Unmarshal(value, &one) == nil:
			all = []string{one}
		case json.Unmarshal(value, &all) != nil:
			return &json.UnmarshalTypeError{Value: kindOf(value), Type: reflect.TypeFor[string]()}
		}
		text, _ := name.(string) // in an object, a name is always text
		(*n)[text] = append((*n)[text], all...)
	}
	return nil
}

// kindOf returns the word for a JSON value.
func kindOf(data []byte) string {
	switch data[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	}
	return "number"
}

// values are the named values of the described request.
type values struct {
	headers            named
	attributes, claims map[string]string
	host               string
	// unclear are the headers, in canonical form, that the request has in another spelling, such as X_User, or names in
	// Connection.
	unclear map[string]bool
	line    policy.RepeatableValues // of the Cookie header; nil without one
	given   policy.RepeatableValues // of the cookies, as a Cookie header; nil without them
	query   policy.RepeatableValues // of the parameters, as a query; nil without them
}

var (
	_ policy.RepeatableValues = (*values)(nil)
	_ policy.AttributeValues  = (*values)(nil)
	_ policy.ClaimValues      = (*values)(nil)
)

// setHeaders fills in the headers, by their canonical names.
func (v *values) setHeaders(given named) *problem {
	if len(given) == 0 {
		return nil
	}
	v.headers = make(named, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(given[name], isBroken) {
			return notHTTP("headers")
		}
		canonical := http.CanonicalHeaderKey(name)
		if _, twice := v.headers[canonical]; twice {
			return invalid("headers."+name, "The same header is given in two spellings.", "give it once, with a list of its values")
		}
		v.headers[canonical] = given[name]
		if plain := http.CanonicalHeaderKey(strings.NewReplacer("_", "-", ".", "-").Replace(name)); plain != canonical {
			v.makeUnclear(plain)
		}
	}
	for _, line := range v.headers["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			name := http.CanonicalHeaderKey(strings.Trim(option, " \t"))
			if _, given := v.headers[name]; given && removal.Of(name) != removal.PerHop {
				v.makeUnclear(name)
			}
		}
	}
	return nil
}

func (v *values) makeUnclear(header string) {
	if v.unclear == nil {
		v.unclear = map[string]bool{}
	}
	v.unclear[header] = true
}

// setHost makes the header Host and the host of a request one value, as they are at the proxy.
func (v *values) setHost(a *policy.Attributes) *problem {
	lines := v.headers["Host"]
	v.host = a.Host
	switch {
	case len(lines) == 0:
		return nil
	case len(lines) > 1 || a.Host != "" && spelling.Host(lines[0]) != spelling.Host(a.Host):
		return invalid("headers.Host", "The request has two hosts.", `give one, in "host"`)
	case policy.CheckHost(lines[0]) != nil:
		return refusedProblem(policy.CheckHost(lines[0]))
	}
	a.Host, v.host = lines[0], lines[0]
	return nil
}

// describe reads the parameters, the cookies and the Cookie header as the proxy reads them.
func (v *values) describe(query, cookies named, p *policy.Policy) *problem {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(cookies)) {
		for _, value := range cookies[name] {
			lines = append(lines, name+"="+value)
		}
	}
	if slices.ContainsFunc(lines, isBroken) {
		return notHTTP("cookies")
	}
	if len(lines) > 0 {
		v.given = httplimit.Described("", lines, p)
	}
	if sent := v.headers["Cookie"]; len(sent) > 0 {
		v.line = httplimit.Described("", sent, p)
	}
	if len(query) > 0 {
		v.query = httplimit.Described(url.Values(query).Encode(), nil, p)
	}
	return nil
}

// isBroken reports whether a value cannot be in a header: the proxy refuses it too.
func isBroken(value string) bool { return !httpguts.ValidHeaderFieldValue(value) }

// notHTTP is the problem of names and values that no request of HTTP has. It repeats none of them.
func notHTTP(field string) *problem {
	return invalid(field, fmt.Sprintf("%q holds a name or value that HTTP cannot carry.", field), "give names and values as they came, without control characters")
}

// Read returns a value of the request. A header that the request has in another spelling, such as X_User for
// X-User, is unclear: Sluice cannot remove it before the service. So is one that Connection names, because only some
// gateways remove it.
func (v *values) Read(s policy.Source, name string) policy.Found {
	switch s {
	case policy.FromHeader:
		if name == "Host" && v.host != "" {
			return policy.Found{First: v.host, Last: v.host, Count: policy.CountOne}
		}
		r := found(v.headers[name])
		if v.unclear[name] {
			r.Count = policy.CountUnclear
		}
		return r
	case policy.FromQuery:
		if v.query != nil {
			return v.query.Read(s, name)
		}
	case policy.FromCookie:
		var r, given policy.Found
		if v.line != nil {
			r = v.line.Read(s, name)
			if r.Count != policy.CountNone && v.unclear["Cookie"] {
				r.Count = policy.CountUnclear
			}
		}
		if v.given != nil {
			given = v.given.Read(s, name)
		}
		switch {
		case given.Count == policy.CountNone || given == r: // a caller may give its cookies in both forms
			return r
		case r.Count == policy.CountNone:
			return given
		}
		return policy.Found{First: given.First, Last: r.Last, Count: max(policy.CountSeveral, r.Count)}
	case policy.FromClaim:
		if text, ok := v.Claim(name); ok {
			return found([]string{text})
		}
	}
	return policy.Found{}
}

// ReadAll returns all values of a name.
func (v *values) ReadAll(s policy.Source, name string) (all []string) {
	switch s {
	case policy.FromHeader:
		all = v.headers[name]
	case policy.FromQuery:
		if v.query != nil {
			all = v.query.ReadAll(s, name)
		}
	case policy.FromCookie:
		if v.given != nil {
			all = v.given.ReadAll(s, name)
		}
		if v.line != nil {
			all = append(all, v.line.ReadAll(s, name)...)
		}
	}
	return all
}

// found returns the first and last of some values.
func found(all []string) policy.Found {
	if len(all) == 0 {
		return policy.Found{}
	}
	r := policy.Found{First: all[0], Last: all[len(all)-1], Count: policy.CountOne}
	if len(all) > 1 {
		r.Count = policy.CountSeveral
	}
	return r
}

// first returns the first of some values.
func first(r policy.Found) (string, bool) { return r.First, r.Count != policy.CountNone }

// Header returns the first value of a header.
func (v *values) Header(name string) (string, bool) { return first(v.Read(policy.FromHeader, name)) }

// Cookie looks among the cookies, and then into the Cookie header.
func (v *values) Cookie(name string) (string, bool) { return first(v.Read(policy.FromCookie, name)) }

// Query returns the first value of a parameter.
func (v *values) Query(name string) (string, bool) { return first(v.Read(policy.FromQuery, name)) }

// Attribute returns a value of the caller's own.
func (v *values) Attribute(name string) (string, bool) {
	value, ok := v.attributes[name]
	return value, ok
}

// Claim returns a claim that the caller gave. A token in the headers is not read: nobody has verified it.
func (v *values) Claim(name string) (string, bool) {
	value, ok := v.claims[name]
	return value, ok
}
