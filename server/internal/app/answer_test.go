package app

import (
	"encoding/json"
	"net/http"
	"testing"
)

// The API returns the answer that the proxy gives itself.
func TestTheAPITellsTheAnswerOfTheProxy(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"headers: x-ratelimit\nupstream: "+behind(t, hello)+`
rules:
  - {name: plain, match: {path: /plain}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}}
  - name: page
    match: {path: /page}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}
    when_limited: {status: 503, content_type: text/html, header: {X-Rule: "{rule}"}, body: "<p>{rule}"}
  - name: less
    match: {path: /less}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}
    when_limited: {action: degrade, header: {X-From: "{rule}"}, body: "[]", content_type: application/json}
`), nil)
	for _, path := range []string{"/plain", "/page", "/less"} {
		if got := r.status(Proxy, path); got != http.StatusOK {
			t.Fatalf("%s answers %d", path, got)
		}
		res, body := r.send(Proxy, http.MethodGet, path, "")
		_, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "`+path+`", "client_ip": "127.0.0.1"}`)
		var decision struct {
			Answer struct {
				Status  int
				Headers map[string]string
				Body    string
			}
		}
		if err := json.Unmarshal([]byte(text), &decision); err != nil {
			t.Fatalf("the decision %s is not JSON: %v", text, err)
		}
		answer := decision.Answer
		if answer.Status != res.StatusCode || answer.Body != body || body == "hello" {
			t.Errorf("%s: the API answers %d %q; the proxy answers %d %q", path, answer.Status, answer.Body, res.StatusCode, body)
		}
		for _, name := range []string{"Date", "Content-Length", "Connection"} {
			res.Header.Del(name) // headers of the connection
		}
		// The window may have come a second nearer to its end.
		for _, name := range []string{"Retry-After", "X-Ratelimit-Reset"} {
			if (answer.Headers[name] == "") != (res.Header.Get(name) == "") {
				t.Errorf("%s: the API answers the %s %q, the proxy %q", path, name, answer.Headers[name], res.Header.Get(name))
			}
			delete(answer.Headers, name)
			res.Header.Del(name)
		}
		for name, values := range res.Header {
			if answer.Headers[name] != values[0] {
				t.Errorf("%s: the API answers the %s %q, the proxy %q", path, name, answer.Headers[name], values[0])
			}
		}
		if len(answer.Headers) != len(res.Header) {
			t.Errorf("%s: the API answers %v, the proxy %v", path, answer.Headers, res.Header)
		}
	}
}
