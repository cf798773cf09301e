package httplimit_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
)

// The client is the peer, whatever headers it sends. An IPv6 client is its /64.
func TestTheClientIsThePeer(t *testing.T) {
	limit, err := httplimit.PerClient("1/h")
	if err != nil {
		t.Fatal(err)
	}
	h := limit(nothing)
	for i, c := range []struct {
		peer, header string
		want         int
	}{
		{"192.0.2.1:1", "", 200},
		{"192.0.2.1:2", "", 429},
		{"192.0.2.1:3", "X-Forwarded-For: 198.51.100.1", 429},
		{"192.0.2.1:4", "X-Real-Ip: 198.51.100.1", 429},
		{"192.0.2.1:5", "Forwarded: for=198.51.100.1", 429},
		{"192.0.2.2:1", "X-Forwarded-For: 192.0.2.1", 200},
		{"[::ffff:192.0.2.1]:1", "", 429},
		{"[2001:db8::1]:1", "", 200},
		{"[2001:db8::ffff]:1", "", 429},
		{"[2001:db8:0:1::1]:1", "", 200},
		{"@", "", 200},
		{"@", "", 429}, // a Unix domain socket
	} {
		r := get("/")
		if c.header != "" {
			r = get("/", c.header)
		}
		r.RemoteAddr = c.peer
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("request %d, from %s with %q: status %d, want %d", i, c.peer, c.header, w.Code, c.want)
		}
	}
	for _, rate := range []string{"", "100", "0/m", "-1/m"} {
		if _, err := httplimit.PerClient(rate); err == nil || !strings.HasPrefix(err.Error(), "httplimit: PerClient: ") {
			t.Errorf("rate %q: %v, want an error of PerClient", rate, err)
		}
	}
}
