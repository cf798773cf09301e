package grpclimit_test

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// A denial has all details, and nothing of the key's value.
func TestDenialsHaveDetailsAndNoKey(t *testing.T) {
	d := ruled(policy.Rule{Name: "orders", Match: policy.Match{Paths: []string{create}}, Key: []policy.Part{policy.Header("x-user")}, Limits: []*sluice.Limit{
		perDay(1), sluice.MustLimit("hourly", sluice.FixedWindow{Rate: sluice.PerHour(9)}),
	}})
	conn := serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{ErrorDomain: "shop.example.com"}))
	ctx := with("x-user", "alice-secret")
	var header, trailer metadata.MD
	want(t, call(ctx, conn, grpc.Header(&header)), codes.OK)
	if got := header["ratelimit"]; !slices.Equal(got, []string{`"orders";r=0;t=86400`}) {
		t.Errorf("ratelimit is %q", got)
	}
	if got := header["ratelimit-policy"]; !slices.Equal(got, []string{`"orders";q=1;w=86400, "orders/hourly";q=9;w=3600`}) {
		t.Errorf("ratelimit-policy is %q", got)
	}
	header = nil
	err := call(ctx, conn, grpc.Header(&header), grpc.Trailer(&trailer))
	want(t, err, codes.ResourceExhausted)
	if len(header) > 0 && header["ratelimit"] != nil {
		t.Errorf("a denial has the header %v, so that no retry policy repeats it", header)
	}
	for name, value := range map[string]string{"grpc-retry-pushback-ms": "-1", "retry-after": "86400", "ratelimit": `"orders";r=0;t=86400`} {
		if got := trailer[name]; !slices.Equal(got, []string{value}) {
			t.Errorf("the trailer %s is %q, want %q", name, got, value)
		}
	}
	wait, ok := grpclimit.RetryDelay(err)
	if !ok || wait <= 23*time.Hour || wait > 24*time.Hour {
		t.Errorf("RetryDelay is %v, %v", wait, ok)
	}
	quota := detail[*errdetails.QuotaFailure](err)
	if len(quota.GetViolations()) != 1 {
		t.Fatalf("violations are %v", quota)
	}
	v := quota.Violations[0]
	if v.Subject != "header:X-User" || v.QuotaId != "orders" || v.QuotaValue != 1 || v.QuotaMetric != "requests" || v.ApiService != "shop.v1.Orders" || v.Description != "token_bucket(1/d)" {
		t.Errorf("the violation is %v", v)
	}
	info := detail[*errdetails.ErrorInfo](err)
	if info.GetReason() != "LIMITED" || info.GetDomain() != "shop.example.com" || info.GetMetadata()["rule"] != "orders" {
		t.Errorf("ErrorInfo is %v", info)
	}
	if text := status.Convert(err).Proto().String(); strings.Contains(text, "alice") {
		t.Errorf("the status has the key: %s", text)
	}
	if _, ok := grpclimit.RetryDelay(nil); ok {
		t.Error("no error has a wait")
	}
	if _, ok := grpclimit.RetryDelay(io.EOF); ok {
		t.Error("an error without a status has a wait")
	}
}

// Codes of denials, and which of them have a wait.
func TestDenialsHaveTheirCodes(t *testing.T) {
	key := []policy.Part{policy.Global()}
	for _, c := range []struct {
		name  string
		rule  policy.Rule
		code  codes.Code
		waits bool
		text  string
	}{
		{"a limit", policy.Rule{Key: key, Limits: []*sluice.Limit{perDay(1)}, Cost: policy.Cost{Units: 1}, Floor: 0}, codes.ResourceExhausted, true, "quota exceeded: r"},
		{"always", policy.Rule{Always: true}, codes.ResourceExhausted, false, "quota exceeded"},
		{"a status", policy.Rule{Always: true, WhenLimited: policy.LimitedAction{Status: 403, Body: "{rule} is closed"}}, codes.PermissionDenied, false, "r is closed"},
		{"missing", policy.Rule{Key: []policy.Part{policy.Header("x-user").IfMissing(policy.MissingDeny)}, Limits: []*sluice.Limit{perDay(1)}}, codes.InvalidArgument, false, "the call lacks x-user"},
		{"a list", policy.Rule{Key: []policy.Part{policy.Header("content-type")}, Limits: []*sluice.Limit{perDay(9)}, DenyKeys: [][]string{{"application/grpc"}}}, codes.PermissionDenied, false, "calls of this client are not let pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rule.Name = "r"
			conn := serve(t, &service{}, limited(t, ruled(c.rule), grpclimit.ServerOptions{}))
			_ = call(t.Context(), conn)
			var trailer metadata.MD
			err := call(t.Context(), conn, grpc.Trailer(&trailer))
			want(t, err, c.code)
			if _, waits := grpclimit.RetryDelay(err); waits != c.waits {
				t.Errorf("RetryInfo is %v", retryInfo(err))
			}
			if got := trailer["grpc-retry-pushback-ms"]; !slices.Equal(got, []string{"-1"}) {
				t.Errorf("the pushback is %q", got)
			}
			if text := status.Convert(err).Message(); !strings.HasPrefix(text, c.text) {
				t.Errorf("the message is %q", text)
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
			Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{perDay(1)}, Key: []policy.Part{grpclimit.Method()},
			Cost: func(c *grpclimit.Call) int64 { return int64(len(c.Message.(*text).Value)) },
		}))
		err := call(t.Context(), serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{})))
		want(t, err, codes.ResourceExhausted)
		if retryInfo(err) != nil {
			t.Errorf("a call that never fits has %v", retryInfo(err))
		}
	})
	t.Run("negative cost", func(t *testing.T) {
		d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
			Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{perDay(1)}, Key: []policy.Part{grpclimit.Service()},
			Cost: func(*grpclimit.Call) int64 { return -1 },
		}))
		want(t, call(t.Context(), serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{}))), codes.InvalidArgument)
	})
	t.Run("no rule", func(t *testing.T) {
		d := must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{
			Store: must(memory.New(memory.Options{})), Policy: must(policy.New(policy.Options{Default: policy.Deny})),
		}))
		want(t, call(t.Context(), serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{}))), codes.PermissionDenied)
	})
}

// A retry policy of a client repeats a denied call at the right time, because of the pushback.
func TestRetriesComeAtTheRightTime(t *testing.T) {
	var calls, denied int
	s := limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 1}), grpclimit.ServerOptions{
		OnVerdict: func(_ *grpclimit.Call, v *policy.Verdict, _ time.Duration) {
			if calls++; !v.Allowed() {
				denied++
			}
		},
	})
	conn := serve(t, &service{}, s, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "60s", "maxBackoff": "60s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		want(t, call(ctx, conn), codes.OK) // and not after 60 s
	}
	if denied == 0 || calls != 3+denied {
		t.Errorf("%d calls, of which %d were denied", calls, denied)
	}
}

// MaxPushback bounds the pushback that clients get.
func TestMaxPushbackBoundsThePushback(t *testing.T) {
	for _, c := range []struct {
		most time.Duration
		want []string
	}{{0, []string{"-1"}}, {25 * time.Hour, nil}, {-1, nil}} {
		conn := serve(t, &service{}, limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}), grpclimit.ServerOptions{MaxPushback: c.most}))
		_ = call(t.Context(), conn)
		var trailer metadata.MD
		want(t, call(t.Context(), conn, grpc.Trailer(&trailer)), codes.ResourceExhausted)
		got := trailer["grpc-retry-pushback-ms"]
		if c.most > 0 {
			if len(got) != 1 || len(got[0]) != len("86400000") {
				t.Errorf("MaxPushback %v: %q", c.most, got)
			}
		} else if !slices.Equal(got, c.want) {
			t.Errorf("MaxPushback %v: %q, want %q", c.most, got, c.want)
		}
	}
}

// A rule's own text and metadata are in the status and the trailer.
func TestAnswerOfARule(t *testing.T) {
	rule := policy.Rule{
		Name: "r", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)},
		WhenLimited: policy.LimitedAction{Body: "{rule}: come back in {wait} s", Header: map[string]string{"X-Reason": "{rule}"}},
	}
	conn := serve(t, &service{}, limited(t, ruled(rule), grpclimit.ServerOptions{}))
	want(t, call(t.Context(), conn), codes.OK)
	var trailer metadata.MD
	err := call(t.Context(), conn, grpc.Trailer(&trailer))
	if text := status.Convert(err).Message(); text != "r: come back in 86400 s" || !slices.Equal(trailer["x-reason"], []string{"r"}) {
		t.Errorf("%q, and the trailer is %v", text, trailer)
	}
}

// A denied call fails, also if OnDenied has no error for it.
func TestOnDeniedWithoutAnError(t *testing.T) {
	o := grpclimit.ServerOptions{OnDenied: func(*grpclimit.Call, *policy.Verdict) error { return nil }}
	conn := serve(t, &service{}, limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}), o))
	want(t, call(t.Context(), conn), codes.OK)
	want(t, call(t.Context(), conn), codes.ResourceExhausted)
	_, err := open(t.Context(), conn).Recv()
	want(t, err, codes.ResourceExhausted)
}

// Jitter makes all waits longer, and none shorter.
func TestJitterOnlyLengthensWaits(t *testing.T) {
	o := grpclimit.ServerOptions{Headers: httplimit.HeaderOptions{Jitter: 20 * time.Hour}, MaxPushback: 100 * time.Hour}
	conn := serve(t, &service{}, limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}), o))
	want(t, call(t.Context(), conn), codes.OK)
	waits := map[time.Duration]bool{}
	for range 9 {
		var trailer metadata.MD
		err := call(t.Context(), conn, grpc.Trailer(&trailer))
		wait, _ := grpclimit.RetryDelay(err)
		pushback, _ := strconv.Atoi(trailer["grpc-retry-pushback-ms"][0])
		for _, wait := range []time.Duration{wait, time.Duration(pushback) * time.Millisecond} {
			if wait < 23*time.Hour || wait > 45*time.Hour {
				t.Errorf("the wait is %v", wait)
			}
			waits[wait.Round(time.Minute)] = true
		}
	}
	if len(waits) < 3 {
		t.Errorf("the waits are %v", waits)
	}
}
