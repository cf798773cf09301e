package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// The middleware refuses requests that services read differently than rules do, whatever the rules and
// in shadow too. It is silent about what clients choose.
func TestAmbiguousRequests(t *testing.T) {
	clock := int64(1e6)
	handled := 0
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ })
	rules := governed(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Options{Shadow: true})
	keys := keyed(t, httplimit.KeyOptions{Store: storeAt(t, &clock), Limits: hourly(1 << 30), Key: []policy.Part{policy.Host(), policy.Path()}})
	for name, d := range map[string]*httplimit.Decider{"rules": rules, "keys": keys} {
		h := wrap(t, d, httplimit.Options{}, next)
		for _, c := range []struct {
			method, target, host string
			want                 string // of the problem
		}{
			{"GET", "/", "a.example:80", ""},
			{"", "/", "", ""},
			{"OPTIONS", "*", "a.example", ""},
			{"MADE-UP", "/", "a.example", ""},
			{"post", "/", "a.example", "method has lower-case letters"},
			{"PO ST", "/", "a.example", "method is not a method"},
			{"GET", "/", "a.example:80:80", "host is not a host"},
			{"GET", "/", strings.Repeat("a", 256), "host is longer than 255 bytes"},
			{"GET", "*", "a.example", "target is not a path"},
			{"GET", "/?user=a#", "a.example", "target has a fragment"},
			{"GET", "/?user=a%23", "a.example", ""},
			{"GET", "/?user=a ", "a.example", "target has a space"},
			{"GET", "/?user=a HTTP/1.1", "a.example", "target has a space"},
			{"GET", "/?user=a%20+", "a.example", ""},
			{"GET", "/%23", "a.example", ""},
			{"GET", "/a%20b%C3%A9", "a.example", ""},
			{"GET", "/login%00", "a.example", "path has an encoded control character"},
			{"GET", "/%0a", "a.example", "path has an encoded control character"},
			{"GET", "/x%2500/y", "a.example", "path has an encoded control character"},
			{"GET", "/" + strings.Repeat("%2e/", 1000), "a.example", "path can be read in too many ways"},
		} {
			if name == "keys" && strings.HasPrefix(c.want, "path can") {
				continue // a key has the clean path, and no variants
			}
			u, err := url.ParseRequestURI(c.target)
			if err != nil {
				t.Fatal(err)
			}
			r := (&http.Request{Method: c.method, URL: u, Host: c.host, RemoteAddr: "192.0.2.1:1"}).WithContext(t.Context())
			handled = 0
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			refused := w.Code == http.StatusBadRequest && strings.Contains(w.Body.String(), c.want)
			if (c.want != "") != refused || (c.want == "") != (handled == 1) {
				t.Errorf("%s: %s %.20s of %.20s answers %d, handled %d times: %s", name, c.method, c.target, c.host, w.Code, handled, w.Body)
			}
			v := d.Decide(r)
			var bad *policy.AttributeError
			if errors.As(v.Refused, &bad) != (c.want != "") || v.Allowed() != (c.want == "") {
				t.Errorf("%s: %s %.20s of %.20s is decided as %s", name, c.method, c.target, c.host, v.String())
			}
		}
	}
}

// Over HTTP/2 a request can have a host and a Host header. Only the host counts.
func TestOnlyTheHostCounts(t *testing.T) {
	r := get("/", "Host: forged.example")
	r.Header["Host"] = []string{"forged.example"}
	r.Host = "a.example"
	if got := keyOf(t, policy.Header("Host"), r); got != "a.example" {
		t.Errorf("the key is %q", got)
	}
}

// Over HTTP/2, white space around the value of a header arrives. Behind a proxy that speaks HTTP/1, the
// service reads the value without it, so each number of spaces would be a key of its own.
func TestSpaceAroundValues(t *testing.T) {
	clock := int64(1e6)
	d := keyed(t, httplimit.KeyOptions{Store: storeAt(t, &clock), Limits: hourly(1 << 30), Key: []policy.Part{policy.Header("X-User")}})
	for value, ok := range map[string]bool{"eve": true, "": true, "e v\te": true, " eve": false, "eve ": false, "\teve": false, "eve\t": false, " ": false} {
		r := get("/")
		r.Header["X-User"] = []string{value}
		r.ProtoMajor = 2
		v := d.Decide(r)
		var bad *policy.AttributeError
		if v.Allowed() != ok || errors.As(v.Refused, &bad) == ok {
			t.Errorf("%q is decided as %s", value, v.String())
		}
	}
}
