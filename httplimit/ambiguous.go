package httplimit

import (
	"net/http"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// errTarget is for a request whose target is not a path: "GET a:http://host/login HTTP/1.1". Rules
// would find the path "/". A proxy behind passes on the text after the colon, which a service reads as
// a whole URL.
var errTarget = &policy.AttributeError{Attribute: "target", Problem: "is not a path", Remedy: "send one such as /login"}

// errFragment is for a request whose query contains "#". Some services, such as nginx and node, read the
// query up to it, others take it for a part of the last value.
var errFragment = &policy.AttributeError{Attribute: "target", Problem: "has a fragment", Remedy: "send it without # and what follows, or %23"}

// errBlank is for a request whose query contains a space, which HTTP/2 permits. Over HTTP/1, services end the
// target there.
var errBlank = &policy.AttributeError{Attribute: "target", Problem: "has a space", Remedy: "send it as %20"}

// checkRequest returns a *policy.AttributeError for a request that services read differently than rules
// do. The host counts only if host is set, and the path only if path is.
func checkRequest(r *http.Request, host, path bool) error {
	if r.URL != nil && (r.URL.Opaque != "" || r.URL.Path == "*" && r.Method != http.MethodOptions) {
		return errTarget
	}
	if r.URL != nil && strings.IndexByte(r.URL.RawQuery, '#') >= 0 {
		return errFragment
	}
	if r.URL != nil && strings.IndexByte(r.URL.RawQuery, ' ') >= 0 {
		return errBlank
	}
	if r.ProtoMajor >= 2 {
		if err := checkFields(r.Header); err != nil {
			return err
		}
		if lines := r.Header["Host"]; len(lines) > 1 || len(lines) == 1 && spelling.Host(lines[0]) != spelling.Host(r.Host) {
			return errHosts // beside :authority
		}
	}
	if r.Method != "" {
		if err := policy.CheckMethod(r.Method); err != nil {
			return err
		}
	}
	if path && r.URL != nil {
		if err := policy.CheckPath(r.URL.EscapedPath()); err != nil {
			return err
		}
	}
	if !host {
		return nil
	}
	return policy.CheckHost(r.Host)
}

// refusal returns the verdict of a request that checkRequest refuses.
//
//go:noinline
func refusal(err error) policy.Verdict {
	v := policy.Verdict{Refused: err}
	v.Deny(sluice.ReasonNever, nil, nil)
	return v
}

// errSpace is for a header of HTTP/2 with white space around its value. RFC 9113 calls such a request
// malformed. A proxy behind passes the header on over HTTP/1, where services remove the white space.
var errSpace = &policy.AttributeError{Attribute: "header", Problem: "has white space around its value", Remedy: "send it without"}

// checkFields returns errSpace if the headers of a request over HTTP/2 are malformed.
func checkFields(h http.Header) error {
	for _, lines := range h {
		for _, v := range lines {
			if v != "" && (isSpace(v[0]) || isSpace(v[len(v)-1])) {
				return errSpace
			}
		}
	}
	return nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }
