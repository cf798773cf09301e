package grpclimit

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// pushback is the metadata with which a server tunes the retry policy of a client: the milliseconds
// after which to repeat a call, or a negative number to give up. See docs/adr/0042.
const pushback = "grpc-retry-pushback-ms"

// report sends the limits of an allowed call to its client, before the answer.
func (s *Server) report(c *Call, v *policy.Verdict) {
	if v.TightestLimit == nil || s.o.Headers.Profile == httplimit.ProfileNone {
		return
	}
	_ = grpc.SetHeader(c.ctx, s.fields(v)) // fails only if another interceptor has sent the header
}

// refuse sends the limits and the wait of a denied call. All of it is in the trailer: a client that has
// received a header cannot repeat the call by its retry policy.
func (s *Server) refuse(c *Call, v *policy.Verdict) {
	md := s.fields(v)
	wait := denial.RetryAfter(v)
	switch {
	case s.o.MaxPushback < 0:
	case wait > 0 && wait <= s.o.MaxPushback:
		// Rounded up, because a call that comes too early is refused.
		md[pushback] = []string{strconv.FormatInt(int64((wait+s.calls.delay()+time.Millisecond-1)/time.Millisecond), 10)}
	default:
		md[pushback] = []string{"-1"}
	}
	if r := v.Rule; r != nil && r.WhenLimited.Action == policy.Deny {
		for name, value := range r.WhenLimited.Header {
			md[strings.ToLower(name)] = []string{expand(value, wait, r.Name)}
		}
	}
	_ = grpc.SetTrailer(c.ctx, md) // fails only outside of a call, as in a test of the interceptor
}

// fields returns the metadata that reports limits.
func (s *Server) fields(v *policy.Verdict) metadata.MD {
	h := make(http.Header, 3)
	s.headers.Set(h, v)
	md := make(metadata.MD, len(h)+1)
	for name, lines := range h {
		md[strings.ToLower(name)] = lines
	}
	return md
}

// passed returns the context for the handler. Its metadata lacks the keys that only rules may set, and
// has the keys that the rules of the verdict set.
func passed(c *Call, v *policy.Verdict, reserved []string) context.Context {
	remove := false
	for _, name := range reserved {
		remove = remove || len(c.Metadata(name)) > 0
	}
	if !remove && v.Mark == nil && v.Degrade == nil {
		return c.ctx
	}
	md, _ := metadata.FromIncomingContext(c.ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	for _, name := range reserved {
		md.Delete(name)
	}
	for _, rule := range [...]*policy.Rule{v.Mark, v.Degrade} {
		if rule == nil {
			continue
		}
		for name, value := range rule.WhenLimited.RequestHeader {
			md.Set(name, expand(value, advisoryWait(v, rule), rule.Name))
		}
	}
	return metadata.NewIncomingContext(c.ctx, md)
}

// advisoryWait returns when a call would no longer be degraded or marked by a rule.
func advisoryWait(v *policy.Verdict, r *policy.Rule) (wait time.Duration) {
	for i := range v.Results {
		if m := &v.Results[i]; m.Rule == r && !m.Decision.Allowed {
			wait = max(wait, m.Decision.RetryAfter)
		}
	}
	return wait
}
