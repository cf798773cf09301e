package api

import (
	"maps"
	"net/http"
	"testing"
)

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
