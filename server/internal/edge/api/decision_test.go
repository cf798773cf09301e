package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
)

func TestTellsTheAnswer(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	binary := []byte("\x89PNG\r\n\x00{rule}\xff")
	file("full.txt", bytes.Repeat([]byte("x"), maxAnswer))
	file("larger.txt", bytes.Repeat([]byte("x"), maxAnswer+1))
	gone := file("gone.html", nil)
	headers, err := httplimit.NewHeaders(httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimit})
	if err != nil {
		t.Fatal(err)
	}
	rules := "rules:\n"
	for path, then := range map[string]string{
		"problem":  "{}",
		"teapot":   `{status: 418, header: {X-Why: "{rule}, {wait} s"}, content_type: application/json, body: '{"wait": {wait}}'}`,
		"degraded": `{action: degrade, status: 203, body: "fünf"}`,
		"status":   `{action: degrade, status: 204}`,
		"binary":   `{action: degrade, file: "` + file("image.png", binary) + `"}`,
		"full":     `{file: "` + filepath.Join(dir, "full.txt") + `"}`,
		"larger":   `{action: degrade, file: "` + filepath.Join(dir, "larger.txt") + `"}`,
		"gone":     `{action: degrade, file: "` + gone + `"}`,
		"upstream": `{action: degrade, upstream: "http://127.0.0.1:3001"}`,
		"hint":     `{action: degrade}`,
		"marked":   `{action: mark}`,
	} {
		rules += fmt.Sprintf("  - {name: %s, match: {path: /%s}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/h, starts: first_request}, when_limited: %s}\n", path, path, then)
	}
	store, err := memory.New(memory.Options{Clock: func() int64 { return 1e15 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := serve(t, "default: deny\n"+rules, func(o *Options) {
		o.Decider, o.Headers = deciding(t, o.Decider.Policy(), store), headers
	})
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	const none = "X-Content-Type-Options"
	for path, want := range map[string]*answer{
		"problem": {
			Status: http.StatusTooManyRequests,
			Headers: map[string]string{
				"Content-Type": "application/problem+json", "Cache-Control": "no-store", none: "nosniff", "Retry-After": "3600",
				"X-Ratelimit-Limit": "1", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "3600",
			},
			Body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["problem"]}` + "\n",
		},
		"teapot": {
			Status: http.StatusTeapot,
			Headers: map[string]string{
				"Content-Type": "application/json", "Cache-Control": "no-store", none: "nosniff", "Retry-After": "3600", "X-Why": "teapot, 3600 s",
				"X-Ratelimit-Limit": "1", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "3600",
			},
			Body: `{"wait": 3600}`,
		},
		"degraded": {Status: 203, Headers: map[string]string{"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}, Body: "fünf"},
		"status":   {Status: 204, Headers: map[string]string{}},
		"binary": {
			Status: 200, Headers: map[string]string{"Content-Type": "image/png", "Cache-Control": "no-store"},
			Body: base64.StdEncoding.EncodeToString(bytes.Replace(binary, []byte("{rule}"), []byte("binary"), 1)), Base64: true,
		},
		"full": {
			Status: http.StatusTooManyRequests,
			Headers: map[string]string{
				"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", none: "nosniff", "Retry-After": "3600",
				"X-Ratelimit-Limit": "1", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "3600",
			},
			Body: strings.Repeat("x", maxAnswer),
		},
		"larger": {Status: 200, Headers: map[string]string{"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}, BodyBytes: maxAnswer + 1},
		"gone": {
			Status: http.StatusServiceUnavailable, Headers: map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store", none: "nosniff"},
			Body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporarily reduced capacity","status":503}` + "\n",
		},
		"upstream": nil, "hint": nil, "marked": nil,
		"nothing": {
			Status: http.StatusForbidden, Headers: map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store", none: "nosniff"},
			Body: `{"type":"about:blank","title":"Forbidden","status":403,"detail":"No rule lets this request pass."}` + "\n",
		},
	} {
		question := `{"path": "/` + path + `", "client_ip": "192.0.2.1"}`
		if path != "nothing" {
			if r := s.want(true, "/v1/check", question); r.Answer != nil {
				t.Errorf("%s: %+v for what passes", path, r.Answer)
			}
		}
		for _, call := range []string{"/v1/peek", "/v1/check", "/v1/check?status=429"} {
			r := s.call(call, question)
			switch got := r.Answer; {
			case (got == nil) != (want == nil):
				t.Errorf("%s of %s: %+v, want %+v", call, path, got, want)
			case got == nil:
			case got.Status != want.Status || got.Body != want.Body || got.Base64 != want.Base64 || got.BodyBytes != want.BodyBytes || !maps.Equal(got.Headers, want.Headers):
				t.Errorf("%s of %s: %+v, want %+v", call, path, *got, *want)
			}
		}
	}
	// Requests by rule, reservations and leases get it too.
	for call, question := range map[string]string{
		"/v1/check":   `{"rule": "teapot", "key": "192.0.2.1"}`,
		"/v1/reserve": `{"path": "/teapot", "client_ip": "192.0.2.1"}`,
		"/v1/acquire": `{"path": "/teapot", "client_ip": "192.0.2.1"}`,
	} {
		if r := s.want(false, call, question); r.Answer == nil || r.Answer.Status != http.StatusTeapot || r.Answer.Body != `{"wait": 3600}` {
			t.Errorf("%s: the answer is %+v, want the teapot's", call, r.Answer)
		}
	}
}

// fallbackStore is a store whose fallback decides about one limit.
type fallbackStore struct {
	sluice.Store
	limit string
}

func (s fallbackStore) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	err := s.Store.DecideAll(ctx, rs, out)
	for i := range rs {
		out[i].Degraded = rs[i].Limit.Name() == s.limit
	}
	return err
}

func TestSaysThatADecisionIsDegraded(t *testing.T) {
	for limit, want := range map[string]bool{"b": true, "other": false} {
		s := serve(t, `
rules:
  - {name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/m}}
  - {name: b, key: client_ip, limit: {algorithm: token_bucket, rate: 9/m}}
`, func(o *Options) {
			o.Decider = deciding(t, o.Decider.Policy(), fallbackStore{o.Decider.Store(), limit})
		})
		r := s.call("/v1/check", `{"method": "GET", "path": "/", "client_ip": "192.0.2.1"}`)
		if r.status != http.StatusOK || len(r.Limits) != 2 {
			t.Fatalf("want two limits, got %+v", r)
		}
		if r.Degraded != want || r.Limits[0].Degraded || r.Limits[1].Degraded != want {
			t.Errorf("degraded is %t, and %t and %t of the limits; want %t for the second", r.Degraded, r.Limits[0].Degraded, r.Limits[1].Degraded, want)
		}
	}
}

func TestTellsHowARequestIsToBeHandled(t *testing.T) {
	s := serve(t, `
classes: [{name: vip, match: {header: {X-Plan: vip}}}]
rules:
  - name: cached
    match: {path: /cached}
    key: client_ip
    limit: {algorithm: token_bucket, rate: 1/h}
    when_limited: {action: degrade, upstream: "http://127.0.0.1:3001"}
  - name: fixed
    match: {path: /fixed}
    key: client_ip
    limit: {algorithm: token_bucket, rate: 1/h}
    when_limited: {action: degrade, body: nothing new}
  - name: less
    match: {path: /less}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/h, starts: first_request}
    when_limited: {action: degrade, request_header: {X-Less: "{rule}, {wait} s"}}
  - name: excess
    match: {path: /excess}
    key: client_ip
    limit: {algorithm: token_bucket, rate: 1/h}
    candidate: {algorithm: token_bucket, rate: 1/h}
    when_limited: {action: mark}
`, nil)
	for path, want := range map[string]struct {
		action string
		how    handling
	}{
		"/cached": {"degrade", handling{Rule: "cached", Upstream: "http://127.0.0.1:3001"}},
		"/fixed":  {"degrade", handling{Rule: "fixed", Status: http.StatusOK}},
		"/less":   {"degrade", handling{Rule: "less", RequestHeader: map[string]string{"X-Less": "less, 3600 s"}}},
		"/excess": {"mark", handling{Rule: "excess", RequestHeader: map[string]string{"Sluice-Marked": "excess"}}},
	} {
		question := `{"path": "` + path + `", "client_ip": "192.0.2.1", "headers": {"X-Plan": "vip"}}`
		if r := s.want(true, "/v1/check", question); r.Action != "allow" || r.Degrade != nil || r.Mark != nil || r.Class != "vip" {
			t.Errorf("%s: %+v of what conforms", path, r.decision)
		}
		r := s.want(true, "/v1/check", question)
		got := r.Degrade
		if want.action == "mark" {
			got = r.Mark
		}
		if r.Action != want.action || got == nil {
			t.Fatalf("%s: %+v, want %s", path, r.decision, want.action)
		}
		if got.Rule != want.how.Rule || got.Upstream != want.how.Upstream || got.Status != want.how.Status || !maps.Equal(got.RequestHeader, want.how.RequestHeader) {
			t.Errorf("%s: %+v, want %+v", path, *got, want.how)
		}
		if l := r.Limits[0]; l.Role != "advisory" || l.Allowed {
			t.Errorf("%s: %+v, want an advisory limit that is over", path, l)
		}
		if path == "/excess" && (len(r.Limits) != 2 || r.Limits[1].Role != "candidate") {
			t.Errorf("%s: %+v, want a candidate too", path, r.Limits)
		}
	}
}

func TestAttributesClaimsAndMarks(t *testing.T) {
	s := serve(t, `
rules:
  - name: mail
    match: {attribute: {protocol: smtp}}
    key: {part: "attribute:sender", on_missing: deny}
    limit: {algorithm: token_bucket, rate: 1/h}
  - name: user
    match: {path: /user}
    key: {part: "claim:sub", on_missing: deny}
    limit: {algorithm: token_bucket, rate: 1/h}
  - name: dropped
    match: {path: /marked, marked: true}
    always: true
`, nil)
	for _, of := range []string{
		`{"attributes": {"protocol": "smtp", "sender": "a@example.com"}}`,
		`{"path": "/user", "claims": {"sub": "ann"}}`,
	} {
		s.want(true, "/v1/check", of)
		s.want(false, "/v1/check", of)
	}
	s.want(true, "/v1/check", `{"attributes": {"protocol": "smtp", "sender": "b@example.com"}}`)
	if r := s.want(false, "/v1/check", `{"attributes": {"protocol": "smtp"}}`); r.Missing != "attribute:sender" {
		t.Errorf("%+v, want the sender missing", r.decision)
	}
	// Nobody says that the token was verified.
	if r := s.want(false, "/v1/check", `{"path": "/user", "headers": {"Authorization": "Bearer e30.eyJzdWIiOiJib2IifQ.e30"}}`); r.Missing != "claim:sub" {
		t.Errorf("%+v, want the claim missing", r.decision)
	}
	s.want(true, "/v1/check", `{"path": "/marked"}`)
	s.want(true, "/v1/check", `{"path": "/marked", "marked": false}`)
	s.want(false, "/v1/check", `{"path": "/marked", "marked": true}`)
	for _, field := range []string{`"attributes": {}`, `"claims": {}`, `"marked": true`} {
		if r := s.call("/v1/check", `{"rule": "mail", "key": "c", `+field+`}`); r.status != http.StatusBadRequest {
			t.Errorf("%s of a rule: status %d, want 400", field, r.status)
		}
	}
}
