package rls

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of the messages.
const (
	fieldOverall         = 1
	fieldStatuses        = 2
	fieldResponseHeaders = 3
	fieldRequestHeaders  = 4
	fieldRawBody         = 5
	fieldMetadata        = 6

	fieldCode         = 1
	fieldCurrentLimit = 2
	fieldRemaining    = 3
	fieldReset        = 4

	fieldRequestsPerUnit = 1
	fieldUnit            = 2
	fieldName            = 3
	fieldUnitMultiplier  = 4
)

// code is a code of the protocol.
type code = ratelimitpb.RateLimitResponse_Code

// codeOf returns the code of an outcome.
func codeOf(allowed bool) code {
	if allowed {
		return ratelimitpb.RateLimitResponse_OK
	}
	return ratelimitpb.RateLimitResponse_OVER_LIMIT
}

// respond writes the answer of a call, a RateLimitResponse.
func (c *call) respond(v *policy.DescriptorVerdict) {
	c.denied = !v.Allowed()
	b := appendNumber(c.out[:0], fieldOverall, uint64(codeOf(v.Allowed())))
	for i := range v.Descriptors {
		b = appendStatus(b, &v.Descriptors[i])
	}
	b = c.appendHeaders(b, &v.Verdict)
	b = appendMetadata(b, v)
	c.out = b
}

// appendStatus appends the decision about a descriptor.
func appendStatus(b []byte, d *policy.DescriptorResult) []byte {
	b, begin := appendBegin(b, fieldStatuses)
	b = appendNumber(b, fieldCode, uint64(codeOf(d.Allowed)))
	switch {
	case d.Rule == nil || d.Replaced:
	case d.Unlimited:
		b = appendNumber(b, fieldRemaining, math.MaxUint32)
	default:
		if d.Deciding != nil && (d.Deciding.Decision.Degraded || isListed(d)) {
			break // a gateway makes headers of these fields, and the count is not known
		}
		b = appendLimit(b, d)
		b = appendNumber(b, fieldRemaining, uint64(min(max(0, d.Remaining()), math.MaxUint32)))
		b = appendReset(b, d)
	}
	return appendEnd(b, begin)
}

// appendLimit appends the current limit of a descriptor. Without a decision of the store it appends nothing, because
// there is no count.
func appendLimit(b []byte, d *policy.DescriptorResult) []byte {
	if !isDecided(d) {
		return b
	}
	l := show(d.Rate)
	b, begin := appendBegin(b, fieldCurrentLimit)
	b = appendNumber(b, fieldRequestsPerUnit, uint64(l.count))
	b = appendNumber(b, fieldUnit, uint64(l.unit))
	if m := d.Rule.Match.Descriptor; m != nil {
		b = appendText(b, fieldName, m.Label)
	}
	if l.multiple > 0 {
		var inner int
		b, inner = appendBegin(b, fieldUnitMultiplier)
		b = appendEnd(appendNumber(b, 1, uint64(l.multiple)), inner)
	}
	return appendEnd(b, begin)
}

// isListed reports whether a list of the rule decided, so that no limit was counted. A rule that is Always limited has a
// count that is known: nothing.
func isListed(d *policy.DescriptorResult) bool {
	return d.Deciding.Listed == policy.ListAllow || d.Deciding.Listed == policy.ListDeny && !d.Rule.Always
}

// isDecided reports whether a decision was made about a descriptor.
func isDecided(d *policy.DescriptorResult) bool {
	return d.Deciding != nil && (d.Deciding.Decision.Allowed || d.Deciding.Decision.Reason != 0)
}

// appendReset appends the time until the limit has all its units again; for a denial, the time until it may be tried again.
// It is in whole seconds, rounded up: Envoy drops the fraction, and clients would come back too early.
func appendReset(b []byte, d *policy.DescriptorResult) []byte {
	wait := d.Reset()
	switch after := d.RetryAfter(); {
	case d.Over && after > 0:
		wait = after
	case !d.Over && d.Deciding != nil && d.Remaining() >= d.Deciding.Decision.Limit:
		wait = 0 // another descriptor denies the call, so this limit was not charged
	}
	b, begin := appendBegin(b, fieldReset)
	b = appendNumber(b, 1, uint64((max(0, wait)+time.Second-1)/time.Second))
	return appendEnd(b, begin)
}

// appendHeaders appends the headers for the answer to the client and for the request to the service, and the body of a
// refusal.
func (c *call) appendHeaders(b []byte, v *policy.Verdict) []byte {
	o := &c.service.o
	if v.TightestLimit == nil && v.Allowed() && v.Mark == nil && v.Degrade == nil {
		return b
	}
	clear(c.header)
	shown := c.distinct(v)
	o.Headers.Set(c.header, shown)
	var body []byte
	if answersItself(v) {
		a := answer{header: c.header}
		if err := httplimit.WriteDenied(&a, nil, shown); err != nil {
			o.OnError(err)
		}
		delete(c.header, "Content-Length") // the gateway counts itself
		body = a.body
	}
	b = c.appendHeader(b, fieldResponseHeaders, c.header)
	if v.Mark != nil || v.Degrade != nil {
		b = c.appendHeader(b, fieldRequestHeaders, o.RequestHeaders(v))
	}
	return appendBytes(b, fieldRawBody, body)
}

// mostPolicies bounds the limits that headers list.
const mostPolicies = 16

// distinct returns a verdict whose results have each limit once, because headers list the limits of all results.
func (c *call) distinct(v *policy.Verdict) *policy.Verdict {
	if len(v.Results) < 2 {
		return v
	}
	c.listed = c.listed[:0]
	for i := range v.Results {
		m := &v.Results[i]
		switch {
		case i > 0 && m.Request.Limit == v.Results[i-1].Request.Limit, c.lists(m.Request.Limit):
		case len(c.listed) < mostPolicies:
			c.listed = append(c.listed, *m)
		case m.Request.Limit == v.TightestLimit:
			c.listed[mostPolicies-1] = *m
		}
	}
	c.shown = *v
	c.shown.Results = c.listed
	return &c.shown
}

// lists reports whether the headers list a limit.
func (c *call) lists(l *sluice.Limit) bool {
	for i := range c.listed {
		if c.listed[i].Request.Limit == l {
			return true
		}
	}
	return false
}

// answersItself reports whether the rule that refuses has its own answer. Other refusals have no body, because gateways
// expect none from a rate limit service.
func answersItself(v *policy.Verdict) bool {
	if v.Allowed() || v.Rule == nil {
		return false
	}
	a := &v.Rule.WhenLimited
	return a.Action == policy.Deny && (a.Body != "" || a.File != "" || len(a.Header) > 0)
}

// answer keeps the header and body that WriteDenied writes.
type answer struct {
	header http.Header
	body   []byte
}

// Header returns the headers of the answer.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader drops the status: the gateway has one for all refusals.
func (a *answer) WriteHeader(int) {}

// Write takes the body.
func (a *answer) Write(b []byte) (int, error) {
	a.body = append(a.body, b...)
	return len(b), nil
}

// appendHeader appends the headers as HeaderValue messages, in the order of their names.
func (c *call) appendHeader(b []byte, field protowire.Number, header http.Header) []byte {
	c.names = c.names[:0]
	for name := range header {
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	for _, name := range c.names {
		for _, value := range header[name] {
			var begin int
			b, begin = appendBegin(b, field)
			b = appendText(appendText(b, 1, name), 2, strings.ToValidUTF8(value, "?"))
			b = appendEnd(b, begin)
		}
	}
	return b
}
