package httplimit

import (
	"context"
	"net/http"
	"net/textproto"

	"github.com/sluicehq/sluice/policy"
)

// Report is what a gateway reports about a request of its client, before it passes the request on: for
// edges such as forward-auth. The service behind the gateway gets the request as the client sent it, so
// a Report holds the client's own texts. Decider.DecideReport decides about it.
type Report struct {
	// Method is the method as the client sent it. Required.
	Method string
	// Target is the target as the client sent it, escaped and with its query: "/a%20b?c=d". An absolute
	// target must name the Host. Required.
	Target string
	// Host is the host that the request is for, from the Host header or :authority. Required.
	Host string
	// Header is the client's header, with names in canonical form: see Report.Add. DecideReport keeps it.
	Header http.Header
	// RemoteAddr is the address of the gateway's own peer, which the gateway saw itself, with or without
	// a port. X-Forwarded-For in Header counts only if a ClientIP trusts this peer. Empty for a peer
	// without an address.
	RemoteAddr string
	// ContentLength is the size of the body, or 0 if only the header Content-Length has it. Without
	// either, the size is unknown.
	ContentLength int64
	// MethodOverride accepts headers by which services replace the method, such as
	// X-HTTP-Method-Override. Default: requests with them are refused, because a gateway passes them on.
	MethodOverride bool
	// KeepsHeader means that the gateway cannot remove the headers that PassedHeaders returns. So requests
	// with another spelling of a header that rules set, such as Sluice_Marked, are refused. The gateway must
	// remove the headers of policy.Policy.ReservedHeaders by itself.
	KeepsHeader bool
}

// Add adds a header, whose name may be in any case.
func (q *Report) Add(name, value string) {
	if q.Header == nil {
		q.Header = make(http.Header)
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	q.Header[name] = append(q.Header[name], value)
}

// blank is copied to make requests with a context.
var blank http.Request

// DecideReport decides about a reported request in the way of Decide, and returns the verdict and the
// request. The request has no body, and is for the functions of this package that take one.
//
// A gateway passes a request on by itself, and a Middleware is not there to repair it. So DecideReport
// also refuses what a Middleware would change: see docs/adr/0043. If the client has sent a header that
// rules read in another spelling too, such as X_Api_Key, its value is unclear.
func (d *Decider) DecideReport(ctx context.Context, q *Report) (*http.Request, policy.Verdict) {
	r := blank.WithContext(ctx)
	r.Method, r.Host, r.Header, r.RemoteAddr, r.RequestURI = q.Method, q.Host, q.Header, q.RemoteAddr, q.Target
	r.Proto, r.ProtoMajor, r.ProtoMinor, r.Body = "HTTP/1.1", 1, 1, http.NoBody
	if r.Header == nil {
		r.Header = http.Header{}
	}
	p := d.inForce()
	others, err := q.check(d, r, p.Policy)
	if err != nil {
		return r, refusal(err)
	}
	return r, d.decideChecked(r, p, others, true)
}

// check fills in the rest of the request. It returns the lines of headers in other spellings, and a
// *policy.AttributeError for a request that the service may read differently than rules do.
func (q *Report) check(d *Decider, r *http.Request, p *policy.Policy) (others http.Header, err error) {
	if q.Method == "" {
		return nil, errNoMethod
	}
	if q.Host == "" {
		return nil, errNoHost
	}
	if r.URL, err = parseTarget(q.Target, q.Host); err != nil {
		return nil, err
	}
	if err := checkRequest(r, true, true); err != nil {
		return nil, err
	}
	if r.Method == http.MethodConnect {
		return nil, errTunnel
	}
	if others, err = q.checkHeader(d, r, p); err != nil {
		return nil, err
	}
	r.ContentLength, err = q.length(r.Header)
	return others, err
}

// PassedHeaders returns how a gateway must change the header of a request that passes: it removes the
// headers of remove, and then sets the headers of set, by which rules mark and degrade requests. The verdict is one of
// d, and the request was not refused.
func (d *Decider) PassedHeaders(r *http.Request, v *policy.Verdict) (set http.Header, remove []string) {
	p := v.Policy()
	remove = removed(r, d.reserved(r, p), p)
	for _, rule := range [...]*policy.Rule{v.Mark, v.Degrade} {
		if rule != nil {
			if set == nil {
				set = make(http.Header)
			}
			setRequestHeader(set, v, rule)
		}
	}
	return set, remove
}
