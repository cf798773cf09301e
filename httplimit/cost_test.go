package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// Some costs are known only after a request has been handled, here over connections.
// A function that returns zero takes nothing, for keys and for policies.
func TestFunctionsReturnZero(t *testing.T) {
	clock := int64(1e6)
	free := func(*http.Request) int64 { return 0 }
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{policy.Global()}, Limits: hourly(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	byRules, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules, Store: storeAt(t, &clock), Cost: free})
	if err != nil {
		t.Fatal(err)
	}
	byKey := keyed(t, httplimit.KeyOptions{Store: storeAt(t, &clock), Limits: hourly(1), Key: []policy.Part{policy.Global()}, Cost: free})
	for name, d := range map[string]*httplimit.Decider{"rules": byRules, "key": byKey} {
		for range 3 {
			if v := d.Decide(get("/")); !v.Allowed() || v.Tightest.Remaining != 1 {
				t.Errorf("%s: a request that costs zero took units: %v", name, &v)
			}
		}
	}
}

func TestCostsAfterTheResponse(t *testing.T) {
	requestBytes := policy.Cost{Source: policy.CostRequestBytes, Estimate: 10}
	responseBytes := policy.Cost{Source: policy.CostResponseBytes, Estimate: 10}
	tokens := policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 10}
	post := func(body io.Reader) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		return r
	}
	unsized := func(n int) io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("x", n))) }
	read := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for _, c := range []struct {
		name    string
		cost    policy.Cost
		request *http.Request
		handler http.HandlerFunc
		want    int64
	}{
		{"a declared body", requestBytes, post(strings.NewReader("123456789012")), read, 12},
		{"a streamed body", requestBytes, post(unsized(5000)), read, 5000},
		{"no body", requestBytes, get("/"), read, 0},
		{"a written response", responseBytes, get("/"), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "12345"); _, _ = io.WriteString(w, "678") }, 8},
		{"a copied response", responseBytes, get("/"), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, unsized(50_000)) }, 50_000},
		{"no response", responseBytes, get("/"), func(http.ResponseWriter, *http.Request) {}, 0},
		{"a response without its body", responseBytes, httptest.NewRequest(http.MethodHead, "/", http.NoBody), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "12345") }, 0},
		{"a header", tokens, get("/"), func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Tokens", "77") }, 77},
		{"a trailer", tokens, get("/"), func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "text")
			w.Header().Set(http.TrailerPrefix+"X-Tokens", "78")
		}, 78},
		{"no header", tokens, get("/"), func(http.ResponseWriter, *http.Request) {}, 10},
		{"an aborted response", tokens, get("/"), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := int64(1e6)
			d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "r", Cost: c.cost, Limits: hourly(100_000)})
			ended := make(chan struct{})
			limited := wrap(t, d, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }}, c.handler)
			s := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				limited.ServeHTTP(w, r)
			}))
			c.request.URL.Scheme, c.request.URL.Host, c.request.RequestURI = "http", strings.TrimPrefix(s.URL, "http://"), ""
			res, err := s.Client().Transport.RoundTrip(c.request.WithContext(t.Context()))
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			<-ended
			v := d.Policy().Peek(t.Context(), d.Store(), &policy.Attributes{})
			if used := 100_000 - v.Results[0].Decision.Remaining; used != c.want {
				t.Errorf("it cost %d; want %d", used, c.want)
			}
		})
	}
}

// A rule's statuses choose which requests it counts: here one counts failed logins, the other all.
func TestCountsOfRules(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{},
		policy.Rule{Name: "failed", Limits: hourly(2), CountStatus: []policy.StatusRange{policy.Status(401)}},
		policy.Rule{Name: "all", Limits: hourly(5)},
	)
	h := wrap(t, d, httplimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for i, c := range []struct {
		password string
		want     int
		rule     string
	}{{"right", 200, ""}, {"wrong", 401, ""}, {"right", 200, ""}, {"wrong", 401, ""}, {"right", 429, "failed"}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/?"+c.password))
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.rule) {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
	v := d.Policy().Peek(t.Context(), d.Store(), &policy.Attributes{})
	if got := [2]int64{v.Results[0].Decision.Remaining, v.Results[1].Decision.Remaining}; got != [2]int64{0, 1} {
		t.Errorf("remaining: %v", got)
	}
}

// A shared gate has its own settings, so a middleware with settings of the gate is refused.
func TestSharedGatesTakeNoSettings(t *testing.T) {
	d := keyed(t, httplimit.KeyOptions{
		Store: bubbleStore(t), Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})},
		Key: []policy.Part{policy.Constant("all")},
	})
	own, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []httplimit.Options{{MaxDelay: 1}, {MaxWaiting: 1}, {Counts: func(int) bool { return true }}} {
		o.Gate = own.Gate()
		if _, err := httplimit.New(d, o); err == nil || !strings.Contains(err.Error(), "give them to gate.New") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := httplimit.New(d, httplimit.Options{Gate: own.Gate()}); err != nil {
		t.Error(err)
	}
}
