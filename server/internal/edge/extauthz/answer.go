package extauthz

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	rpcpb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
)

// pass lets a request pass, with the headers for the service and for the client.
func (s *Service) pass(r *http.Request, v *policy.Verdict) *authpb.CheckResponse {
	set, remove := s.decider.PassedHeaders(r, v)
	if v.Degrade != nil && len(set[removal.Degraded]) == 0 && len(v.Degrade.WhenLimited.RequestHeader) == 0 {
		if set == nil {
			set = make(http.Header)
		}
		set[removal.Degraded] = []string{v.Degrade.Name} // the gateway chooses another upstream by it
	}
	// Envoy removes headers after it has set others.
	remove = slices.DeleteFunc(remove, func(name string) bool { return len(set[name]) > 0 })
	slices.Sort(remove)
	limits := make(http.Header)
	s.decider.SetLimits(limits, v)
	return &authpb.CheckResponse{
		Status: &rpcpb.Status{Code: int32(codes.OK)},
		HttpResponse: &authpb.CheckResponse_OkResponse{OkResponse: &authpb.OkHttpResponse{
			Headers: options(set), HeadersToRemove: remove, ResponseHeadersToAdd: options(limits),
		}},
		DynamicMetadata: metadata(v),
	}
}

// deny answers a request that is refused.
func (s *Service) deny(v *policy.Verdict) *authpb.CheckResponse {
	code := codes.PermissionDenied
	a := gateway.NewAnswer()
	s.decider.WriteDenied(a, v)
	if a.Status == http.StatusTooManyRequests {
		code = codes.ResourceExhausted
	}
	return response(a, code, v)
}

// degrade answers a request that is degraded to an answer, such as a redirect to a waiting room.
func (s *Service) degrade(r *http.Request, v *policy.Verdict) *authpb.CheckResponse {
	a := gateway.NewAnswer()
	s.decider.WriteDegraded(a, r, v)
	return response(a, codes.PermissionDenied, v)
}

// response returns an answer in the form of the protocol.
func response(a *gateway.Answer, code codes.Code, v *policy.Verdict) *authpb.CheckResponse {
	delete(a.Header(), "Content-Length") // the gateway counts itself
	return &authpb.CheckResponse{
		Status: &rpcpb.Status{Code: int32(code), Message: text(v.String())},
		HttpResponse: &authpb.CheckResponse_DeniedResponse{DeniedResponse: &authpb.DeniedHttpResponse{
			Status: &typepb.HttpStatus{Code: typepb.StatusCode(a.Status)}, Headers: options(a.Header()), Body: text(string(a.Body)),
		}},
		DynamicMetadata: metadata(v),
	}
}

// options returns headers that replace others of their names. Further lines of a name are appended.
func options(h http.Header) []*corepb.HeaderValueOption {
	var all []*corepb.HeaderValueOption
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for i, value := range h[name] {
			action := corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
			if i > 0 {
				action = corepb.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
			}
			all = append(all, &corepb.HeaderValueOption{Header: &corepb.HeaderValue{Key: name, Value: text(value)}, AppendAction: action})
		}
	}
	return all
}

// text returns a text as valid UTF-8, because the protocol takes no other bytes.
func text(s string) string { return strings.ToValidUTF8(s, "?") }

// metadata returns the explanation of a verdict for the filters and logs of the gateway, nil for a request without rules.
// It has names of the configuration, and never a key.
func metadata(v *policy.Verdict) *structpb.Struct {
	if v.Reason == sluice.ReasonNoRule && v.Allowed() {
		return nil
	}
	fields := map[string]*structpb.Value{"action": structpb.NewStringValue(v.Action.String())}
	add := func(name, value string) {
		if value != "" {
			fields[name] = structpb.NewStringValue(text(value))
		}
	}
	if v.Rule != nil {
		add("rule", v.Rule.Name)
	}
	if v.TightestLimit != nil {
		add("limit", v.TightestLimit.Name())
	}
	add("class", v.Class)
	if !v.Allowed() {
		add("reason", v.Reason.String())
		if wait := v.RetryAfter(); wait > 0 {
			fields["retry_after_seconds"] = structpb.NewNumberValue(float64((wait + time.Second - 1) / time.Second))
		}
	}
	if v.FellBack() {
		fields["degraded"] = structpb.NewBoolValue(true)
	}
	add("explanation", v.String())
	return &structpb.Struct{Fields: fields}
}
