package grpclimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// Status describes a denial: a code, a message, RetryInfo with the wait, and QuotaFailure with a
// violation for each limit that refused the call. A denial has no RetryInfo if no wait would help. The
// status names rules, limits and the kinds of key parts, and never a value of the call.
func Status(c *Call, v *policy.Verdict) *status.Status { return statusAfter(c, v, 0, "") }

// statusAfter returns the status with a longer wait, and with ErrorInfo unless the domain is empty.
func statusAfter(c *Call, v *policy.Verdict, jitter time.Duration, domain string) *status.Status {
	wait := denial.RetryAfter(v)
	s := status.New(Code(v), message(v, wait))
	var details []protoadapt.MessageV1
	if wait > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait + jitter)}))
	}
	if violations := violationsOf(c, v); len(violations) > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.QuotaFailure{Violations: violations}))
	}
	if domain != "" {
		info := &errdetails.ErrorInfo{Reason: strings.ToUpper(strings.ReplaceAll(v.Reason.String(), "-", "_")), Domain: domain}
		if v.Rule != nil && v.Rule.Name != "" {
			info.Metadata = map[string]string{"rule": v.Rule.Name}
		}
		details = append(details, protoadapt.MessageV1Of(info))
	}
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s // details of these types can always be encoded
	}
	return detailed
}

// message describes a denial in words. The text of the rule wins.
func message(v *policy.Verdict, wait time.Duration) string {
	if r := v.Rule; r != nil && r.WhenLimited.Action == policy.Deny && r.WhenLimited.Body != "" {
		return expand(r.WhenLimited.Body, wait, r.Name)
	}
	text := reason(v)
	if wait > 0 {
		text += fmt.Sprintf("; retry after %v", wait.Round(time.Millisecond))
	}
	return text
}

func reason(v *policy.Verdict) string {
	var refused *policy.AttributeError
	switch {
	case v.Missing != nil && v.Reason == sluice.ReasonRepeatedKey:
		return "the call has several values, or an unclear one, for " + nameOf(v.Missing) + "; " + v.Missing.OnceRemedy()
	case v.Missing != nil:
		return "the call lacks " + nameOf(v.Missing)
	case errors.As(v.Refused, &refused):
		return "the call's " + refused.Attribute + " " + refused.Problem
	case isInvalid(v.Err):
		return "the call's cost is less than nothing"
	case v.Reason == sluice.ReasonNoRule:
		return "no rule lets this call pass"
	case v.Reason == sluice.ReasonUnknownPlan:
		return "the plan of this call is unknown"
	case v.Reason == sluice.ReasonListed:
		return "calls of this client are not let pass"
	case v.Reason == sluice.ReasonStoreError:
		return "limits cannot be checked at the moment"
	case v.Reason == sluice.ReasonBanned:
		return "too many denied calls" + of(v)
	case errors.Is(v.Refused, sluice.ErrDeadline):
		return "the deadline of the call is before its turn" + of(v)
	case v.Refused != nil:
		return "too many calls are waiting" + of(v)
	default:
		return "quota exceeded" + of(v)
	}
}

// of names the limit of a denial.
func of(v *policy.Verdict) string {
	if v.TightestLimit == nil {
		return ""
	}
	return ": " + v.TightestLimit.Name()
}

// nameOf names a part of a key.
func nameOf(p *policy.Part) string {
	if p.Name == "" {
		return p.Source.String()
	}
	return strings.ToLower(p.Name)
}

// isInvalid reports whether the store got an impossible request.
func isInvalid(err error) bool {
	var invalid *sluice.RequestError
	return errors.As(err, &invalid)
}

// expand fills in {wait}, in seconds, and {rule}.
func expand(text string, wait time.Duration, rule string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	seconds := int64((wait + time.Second - 1) / time.Second)
	return strings.NewReplacer("{wait}", strconv.FormatInt(seconds, 10), "{rule}", rule).Replace(text)
}

// violationsOf returns a violation for each enforced limit that refuses the call.
func violationsOf(c *Call, v *policy.Verdict) (all []*errdetails.QuotaFailure_Violation) {
	for i := range v.Results {
		m := &v.Results[i]
		if m.Decision.Allowed || m.Role != policy.RoleEnforced || m.Request.Limit == nil || m.Listed != policy.NotListed || m.Decision.Limit == 0 {
			continue
		}
		l := m.Request.Limit
		value := m.Decision.Limit
		if m.Decision.Degraded {
			value = l.Capacity() // the fallback has a share of the limit
		}
		violation := &errdetails.QuotaFailure_Violation{
			Subject: subject(m.Rule), Description: l.Algorithm().String(), ApiService: service(c.Method),
			QuotaMetric: "requests", QuotaId: l.Name(), QuotaValue: value,
		}
		if l.IsConcurrency() {
			violation.QuotaMetric = "concurrent-requests"
		}
		all = append(all, violation)
	}
	return all
}

// subject names what a rule counts by, such as "client_ip" or "header:X-Api-Key". It does not contain
// the value.
func subject(r *policy.Rule) string {
	if r == nil {
		return ""
	}
	parts := make([]string, len(r.Key))
	for i := range r.Key {
		parts[i] = r.Key[i].String()
	}
	return strings.Join(parts, ", ")
}

// RetryDelay returns the wait of an error that a call returned, from its RetryInfo. ok is false for an
// error without one. A program that repeats denied calls itself should wait that long. Most programs
// leave repeating to the retry policy of the client.
func RetryDelay(err error) (wait time.Duration, ok bool) {
	s, isStatus := status.FromError(err)
	if !isStatus || s.Code() == codes.OK {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, found := detail.(*errdetails.RetryInfo); found && info.RetryDelay.IsValid() {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}
