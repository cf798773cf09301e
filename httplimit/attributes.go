package httplimit

import (
	"net/http"

	"github.com/sluicehq/sluice/policy"
)

// Attributes describes a request to a policy. ip finds the client's address; a nil ip takes the peer's
// address. The policy itself cleans the host and path. Claims come from BearerClaim, which verifies
// nothing. An edge of your own calls policy.CheckMethod and policy.CheckHost first, as Decider.Decide
// does.
func Attributes(r *http.Request, ip *ClientIP) policy.Attributes {
	a := policy.Attributes{Method: r.Method, Host: r.Host, Values: values{r}, RequestBytes: r.ContentLength}
	if r.Method == "" {
		a.Method = http.MethodGet
	}
	if r.URL != nil {
		a.Path = r.URL.EscapedPath()
	}
	a.ClientIP, _ = ip.Addr(r)
	return a
}

// values finds the named parts of a request. It is one pointer, so that the interface costs no
// allocation.
type values struct{ r *http.Request }

var (
	_ policy.Values          = values{}
	_ policy.ClaimValues     = values{}
	_ policy.AttributeValues = ownValues{}
)

// requestOf returns the request that attributes of this package describe, or nil.
func requestOf(a *policy.Attributes) *http.Request {
	switch v := a.Values.(type) {
	case values:
		return v.r
	case ownValues:
		return v.r
	case *reportedValues:
		return v.r
	case *longValues:
		return v.r
	}
	return nil
}

// Header returns the first header line of a name, as Header.Get does for handlers. net/http keeps the
// host apart from the headers, but authors of rules expect it there.
func (v values) Header(name string) (string, bool) {
	lines := v.r.Header[name]
	if name == "Host" {
		return v.r.Host, v.r.Host != "" // over HTTP/2 a header may have another one
	}
	if len(lines) == 0 {
		return "", false
	}
	return lines[0], true
}

// Cookie returns the first cookie of a name.
func (v values) Cookie(name string) (string, bool) {
	c, err := v.r.Cookie(name)
	if err != nil {
		return "", false
	}
	return c.Value, true
}

// Query returns the first parameter of a name, as url.ParseQuery reads it.
func (v values) Query(name string) (string, bool) {
	if v.r.URL == nil {
		return "", false
	}
	all := v.r.URL.Query()[name]
	if len(all) == 0 {
		return "", false
	}
	return all[0], true
}

// Claim returns a claim of the bearer token, which is not verified here.
func (v values) Claim(name string) (string, bool) { return BearerClaim(v.r, name) }

// ownValues are values whose claims and attributes a program can find itself.
type ownValues struct {
	values
	claim, attribute func(r *http.Request, name string) (string, bool)
}

func (v ownValues) Claim(name string) (string, bool) {
	if v.claim == nil {
		return v.values.Claim(name)
	}
	return v.claim(v.r, name)
}

func (v ownValues) Attribute(name string) (string, bool) {
	if v.attribute == nil {
		return "", false
	}
	return v.attribute(v.r, name)
}
