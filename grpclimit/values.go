package grpclimit

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// values finds the named values of a call for a policy. Headers are metadata. Calls have no cookies
// and no parameters.
type values Call

var (
	_ policy.RepeatableValues = (*values)(nil)
	_ policy.ClaimValues      = (*values)(nil)
	_ policy.AttributeValues  = (*values)(nil)
)

// callOf returns the call that attributes of this package describe, or nil.
func callOf(a *policy.Attributes) *Call {
	v, _ := a.Values.(*values)
	return (*Call)(v)
}

// lines returns all values of a header. Binary values are in base64, because their bytes can have only
// one spelling there, and would not be clear otherwise.
func (v *values) lines(name string) []string {
	c := (*Call)(v)
	if name == "Host" {
		if host := c.Authority(); host != "" {
			return []string{host}
		}
		return nil
	}
	all := c.Metadata(name)
	if !isBinary(name) {
		return all
	}
	encoded := make([]string, len(all))
	for i, value := range all {
		encoded[i] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return encoded
}

// isBinary reports whether a metadata key has binary values.
func isBinary(key string) bool {
	const suffix = "-bin"
	return len(key) > len(suffix) && strings.EqualFold(key[len(key)-len(suffix):], suffix)
}

// Read returns the first and the last value of a name, and how many there are.
func (v *values) Read(s policy.Source, name string) policy.Found {
	switch s {
	case policy.FromHeader:
		return found(v.lines(name))
	case policy.FromClaim:
		return v.claim(name)
	}
	return policy.Found{}
}

// ReadAll returns all values of a name.
func (v *values) ReadAll(s policy.Source, name string) []string {
	if s == policy.FromHeader {
		return v.lines(name)
	}
	return nil
}

func found(lines []string) policy.Found {
	switch n := len(lines); n {
	case 0:
		return policy.Found{}
	case 1:
		return policy.Found{First: lines[0], Last: lines[0], Count: policy.CountOne}
	default:
		return policy.Found{First: lines[0], Last: lines[n-1], Count: policy.CountSeveral}
	}
}

// claim returns a claim as the program finds it, or else the claim of the bearer token, which nobody
// has verified: see httplimit.BearerClaim.
func (v *values) claim(name string) policy.Found {
	c := (*Call)(v)
	if find := c.decider.o.Claim; find != nil {
		if text, ok := find(c, name); ok {
			return policy.Found{First: text, Last: text, Count: policy.CountOne}
		}
		return policy.Found{}
	}
	r := &http.Request{Header: http.Header{"Authorization": c.Metadata("authorization")}}
	return httplimit.Attributes(r, nil).Values.(policy.RepeatableValues).Read(policy.FromClaim, name)
}

// Header returns the first value of a metadata key.
func (v *values) Header(name string) (string, bool) { return first(v.Read(policy.FromHeader, name)) }

// Claim returns a claim of the call's token.
func (v *values) Claim(name string) (string, bool) { return first(v.claim(name)) }

func first(f policy.Found) (string, bool) { return f.First, f.Count != policy.CountNone }

// Cookie finds nothing.
func (*values) Cookie(string) (string, bool) { return "", false }

// Query finds nothing.
func (*values) Query(string) (string, bool) { return "", false }

// Attribute returns a value of the program's own.
func (v *values) Attribute(name string) (string, bool) {
	c := (*Call)(v)
	if find := c.decider.o.Attribute; find != nil {
		return find(c, name)
	}
	return "", false
}
