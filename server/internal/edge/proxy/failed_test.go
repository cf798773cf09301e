package proxy

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// TestSettlesFailedRequests: a request that the upstream never got counts by the status of its refusal. If the upstream got
// it, the answer is unknown: the request counts by any status. If the upstream may still work, the lease stays.
func TestSettlesFailedRequests(t *testing.T) {
	arrived, over := make(chan struct{}, 1), make(chan struct{})
	abort := service(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	silent := service(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-over
	})
	t.Cleanup(func() { close(over) }) // before the service ends
	send := func(t *testing.T, target string) { get(t, client(t), target, nil) }
	unknown := map[string]int64{"200": 1, "400": 1, "499": 1, "502": 1, "504": 1}
	working := map[string]int64{"200": 1, "400": 1, "499": 1, "502": 1, "504": 1, "lease": 1}
	for name, c := range map[string]struct {
		target string
		send   func(t *testing.T, target string)
		want   map[string]int64 // the units that rules have counted
	}{
		"nobody listens":        {"http://" + unusedAddress(t), send, map[string]int64{"502": 1}},
		"the answer breaks off": {abort.URL, send, unknown},
		"nobody answers": {silent.URL, func(t *testing.T, target string) {
			send(t, target)
			<-arrived
		}, working},
		"it is malformed": {abort.URL, func(t *testing.T, target string) {
			c := dial(t, target)
			c.send("GET / HTTP/1.1", "Host: example.com", "Upgrade: \x80", "")
			c.header()
		}, map[string]int64{"400": 1}},
		"the body breaks off": {silent.URL, func(t *testing.T, target string) {
			c := dial(t, target)
			c.send("POST / HTTP/1.1", "Host: example.com", "Content-Length: 10", "", "12345")
			await(t, arrived, "the request")
			c.Close()
		}, working},
		"the client leaves before it is sent": {silent.URL, func(t *testing.T, target string) {
			first, second := dial(t, target), dial(t, target)
			first.send("GET / HTTP/1.1", "Host: example.com", "")
			await(t, arrived, "the first request, which uses the only connection")
			second.send("GET / HTTP/1.1", "Host: example.com", "")
			second.Close()
			first.header() // of a timeout
		}, map[string]int64{"200": 1, "400": 1, "499": 2, "502": 1, "504": 1, "lease": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := memory.New(memory.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			rule := func(name string, a sluice.Algorithm) policy.Rule {
				return policy.Rule{Name: name, Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit(name, a)}}
			}
			rules := []policy.Rule{rule("lease", sluice.Concurrency{Max: 10})}
			for _, status := range []int{200, 400, 499, 502, 504} {
				r := rule(strconv.Itoa(status), sluice.FixedWindow{Rate: sluice.PerHour(10)})
				r.CountStatus = []policy.StatusRange{policy.Status(status)}
				rules = append(rules, r)
			}
			compiled, err := policy.New(policy.Options{Rules: rules})
			if err != nil {
				t.Fatal(err)
			}
			d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Store: store, Policy: compiled})
			if err != nil {
				t.Fatal(err)
			}
			m, err := httplimit.New(d, httplimit.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p := handler(t, c.target, TransportOptions{Answer: 300 * time.Millisecond, MaxConnections: 1}, nil)
			s := httptest.NewServer(Bounded(m.Wrap(p), p.o.Stall))
			t.Cleanup(s.Close)
			c.send(t, s.URL)
			s.Close() // the handlers have returned
			got := map[string]int64{}
			for _, r := range compiled.Peek(t.Context(), store, &policy.Attributes{}).Results {
				if used := 10 - r.Decision.Remaining; used > 0 {
					got[r.Rule.Name] = used
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("%v; want %v", got, c.want)
			}
		})
	}
}
