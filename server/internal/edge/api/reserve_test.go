package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// budget is ten units a day for everybody, which the clock does not move in a test.
const budget = "rules: [{name: budget, key: [global], limit: {algorithm: token_bucket, rate: 10/d, burst: 10}}]"

func (s *service) remaining(rule string) int64 {
	s.t.Helper()
	return *s.call("/v1/peek", `{"rule": "`+rule+`", "key": []}`).Remaining
}

func TestSettleReplacesTheCost(t *testing.T) {
	s := serve(t, budget, nil)
	for _, x := range []struct{ reserved, cost, remain int64 }{
		{8, 2, 8},  // the surplus comes back
		{3, 5, 3},  // the rest is charged
		{3, 0, 3},  // all comes back
		{1, 9, -6}, // into debt, which remaining shows as none
	} {
		r := s.want(true, "/v1/reserve", fmt.Sprintf(`{"rule": "budget", "key": [], "cost": %d, "ttl_ms": 60000}`, x.reserved))
		if r.Token == "" || r.opened.ExpiresInMS != 60000 {
			t.Fatalf("want a reservation of a minute, got %+v", r)
		}
		end := s.call("/v1/settle", fmt.Sprintf(`{"token": %q, "cost": %d}`, r.Token, x.cost))
		if end.status != http.StatusOK || !end.Ended || end.Charges != 1 {
			t.Fatalf("want one settled charge, got %+v", end)
		}
		if got := s.remaining("budget"); got != max(0, x.remain) {
			t.Errorf("reserved %d, settled at %d: %d remain, want %d", x.reserved, x.cost, got, max(0, x.remain))
		}
	}
	s.want(false, "/v1/check", `{}`)
}

func TestATokenWorksOnce(t *testing.T) {
	s := serve(t, budget, nil)
	for _, first := range []string{"settle", "cancel"} {
		for _, second := range []string{"settle", "cancel"} {
			token := s.want(true, "/v1/reserve", `{"cost": 2}`).Token
			body := map[string]string{
				"settle": `{"token": "` + token + `", "cost": 0}`, "cancel": `{"token": "` + token + `"}`,
			}
			if r := s.call("/v1/"+first, body[first]); r.status != http.StatusOK {
				t.Fatalf("the first end, %s, failed: %+v", first, r)
			}
			before := s.remaining("budget")
			if r := s.call("/v1/"+second, body[second]); r.status != http.StatusNotFound || r.Field != "token" || r.Remedy == "" {
				t.Errorf("%s after %s: %+v", second, first, r)
			}
			if got := s.remaining("budget"); got != before {
				t.Errorf("%s after %s moved the budget from %d to %d", second, first, before, got)
			}
		}
	}
	if s.api.Open() != 0 {
		t.Errorf("%d tokens are open", s.api.Open())
	}
}

func TestOfManyEndsOneIsTheEnd(t *testing.T) {
	s := serve(t, budget, nil)
	token := s.want(true, "/v1/reserve", `{"cost": 5}`).Token
	var all sync.WaitGroup
	ended := make(chan int, 16)
	for range cap(ended) {
		all.Go(func() { ended <- s.call("/v1/settle", `{"token": "`+token+`", "cost": 0}`).status })
	}
	all.Wait()
	close(ended)
	n := 0
	for status := range ended {
		if status == http.StatusOK {
			n++
		}
	}
	if n != 1 || s.remaining("budget") != 10 {
		t.Errorf("%d of 16 ended the reservation, %d of 10 remain", n, s.remaining("budget"))
	}
}

func TestWhatNobodyEndsIsCancelled(t *testing.T) {
	s := serve(t, `
rules:
  - name: jobs
    key: [global]
    limit: {algorithm: concurrency, max: 1, ttl: 1h}
  - name: budget
    key: [global]
    limit: {algorithm: token_bucket, rate: 10/d, burst: 10}
`, nil)
	token := s.want(true, "/v1/reserve", `{"cost": 1, "ttl_ms": 1000}`).Token
	s.want(false, "/v1/reserve", `{}`)
	edgetest.Eventually(t, "the end of a reservation that its client forgot", func() bool {
		return s.call("/v1/peek", `{}`).Allowed
	})
	if r := s.call("/v1/settle", `{"token": "`+token+`", "cost": 0}`); r.status != http.StatusNotFound {
		t.Errorf("the token of a reservation that expired answers %d", r.status)
	}
	edgetest.Eventually(t, "the count", func() bool { return s.api.Expired() == 1 && s.api.Open() == 0 })
	// What was taken for a moment that has passed stays taken.
	if got := s.remaining("budget"); got != 9 {
		t.Errorf("%d of 10 remain", got)
	}
}

func TestTokensEndInTheirOrderAndNotInThatOfTheirOpening(t *testing.T) {
	s := serve(t, "rules: [{name: jobs, key: ['header:X-Job'], limit: {algorithm: concurrency, max: 1, ttl: 1h}}]", nil)
	s.want(true, "/v1/reserve", `{"headers": {"X-Job": "long"}, "ttl_ms": 3600000}`)
	s.want(true, "/v1/reserve", `{"headers": {"X-Job": "short"}, "ttl_ms": 20}`)
	s.want(true, "/v1/reserve", `{"headers": {"X-Job": "middle"}, "ttl_ms": 60}`)
	edgetest.Eventually(t, "the end of the two that are short", func() bool { return s.api.Expired() == 2 })
	s.want(true, "/v1/peek", `{"headers": {"X-Job": "short"}}`)
	s.want(true, "/v1/peek", `{"headers": {"X-Job": "middle"}}`)
	s.want(false, "/v1/peek", `{"headers": {"X-Job": "long"}}`)
}

func TestOpenTokensAreBounded(t *testing.T) {
	s := serve(t, budget, func(o *Options) { o.MaxTokens = 4 }) // half of them for one caller
	first := s.want(true, "/v1/reserve", `{}`).Token
	s.want(true, "/v1/reserve", `{}`)
	if r := s.call("/v1/reserve", `{}`); r.status != http.StatusServiceUnavailable || r.Remedy == "" {
		t.Errorf("a third reservation: %+v", r)
	}
	if got := s.remaining("budget"); got != 8 {
		t.Errorf("a reservation without room was charged: %d of 10 remain", got)
	}
	s.call("/v1/cancel", `{"token": "`+first+`"}`)
	s.want(true, "/v1/reserve", `{}`)
	// A denial gives its room back.
	s.call("/v1/cancel", `{"token": "`+first+`"}`)
}

// A caller that opens reservations without end leaves room for the others, whatever tokens it makes up. What it ends is free again.
func TestCallersShareTheReservations(t *testing.T) {
	const plenty = "rules: [{name: budget, key: [global], limit: {algorithm: token_bucket, rate: 1000/s}}]"
	s := serve(t, plenty, func(o *Options) { o.MaxTokens = 32 })
	from := func(address string) *http.Client {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		wire := &http.Transport{DialContext: dialer.DialContext}
		t.Cleanup(wire.CloseIdleConnections)
		return &http.Client{Transport: wire, Timeout: edgetest.Patience}
	}
	flood := func(c *http.Client) (opened int, last string) {
		for i := range 33 {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/reserve", strings.NewReader(`{"ttl_ms": 3600000}`))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Authorization", fmt.Sprint("Bearer ", i))
			r, err := c.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Token, Remedy string }
			err = json.NewDecoder(r.Body).Decode(&got)
			_ = r.Body.Close()
			switch {
			case err != nil:
				t.Fatal(err)
			case r.StatusCode == http.StatusOK:
				opened, last = opened+1, got.Token
			case r.StatusCode != http.StatusServiceUnavailable || got.Remedy == "":
				t.Fatalf("a reservation without room is answered %d, remedy %q", r.StatusCode, got.Remedy)
			}
		}
		return opened, last
	}
	first, second := from("127.0.0.1"), from("127.0.0.2")
	if n, _ := flood(first); n != 16 {
		t.Errorf("one caller opens %d reservations, want half of 32", n)
	}
	n, token := flood(second)
	if n != 8 {
		t.Errorf("the next caller opens %d reservations, want half of the rest", n)
	}
	s.call("/v1/cancel", `{"token": "`+token+`"}`) // by anybody who has the token
	if n, _ := flood(second); n != 1 {
		t.Errorf("after one has ended, the caller opens %d", n)
	}
}

func TestDenialsTakeNoRoom(t *testing.T) {
	s := serve(t, budget, func(o *Options) { o.MaxTokens = 1 })
	for range 3 {
		if r := s.want(false, "/v1/reserve", `{"cost": 11}`); r.Token != "" || r.Reason != "never" || r.RetryAfterMS != nil {
			t.Fatalf("11 of 10 units can never be reserved, but got %+v", r)
		}
	}
	s.want(true, "/v1/reserve", `{}`)
	if r := s.call("/v1/reserve", `{"rule": "nobody"}`); r.status != http.StatusServiceUnavailable {
		t.Errorf("status %d", r.status)
	}
}

func TestCancelGivesBackWhatIsStillToCome(t *testing.T) {
	s := serve(t, "rules: [{name: queue, key: [global], limit: {algorithm: leaky_bucket, rate: 1/h, queue: 2}}]", nil)
	s.want(true, "/v1/check", `{}`)
	later := s.want(true, "/v1/reserve", `{}`)
	if later.DelayMS < 3_500_000 {
		t.Fatalf("a delay of %d ms", later.DelayMS)
	}
	if next := s.want(true, "/v1/peek", `{}`); next.DelayMS < 7_100_000 {
		t.Fatalf("the next in the queue waits %d ms", next.DelayMS)
	}
	if r := s.call("/v1/cancel", `{"token": "`+later.Token+`"}`); r.status != http.StatusOK || r.Charges != 1 {
		t.Fatalf("cancelling the later one: %+v", r)
	}
	if next := s.want(true, "/v1/peek", `{}`); next.DelayMS > 3_600_000 {
		t.Errorf("after the cancellation the next in the queue waits %d ms", next.DelayMS)
	}
}

func TestRulesThatNameTheirCostKeepIt(t *testing.T) {
	s := serve(t, `
rules:
  - name: requests
    key: [global]
    cost: 1
    limit: {algorithm: token_bucket, rate: 10/d, burst: 10}
  - name: tokens
    key: [global]
    limit: {algorithm: token_bucket, rate: 1000/d, burst: 1000}
  - name: running
    key: [global]
    cost: 1
    limit: {algorithm: concurrency, max: 3, ttl: 1h}
`, nil)
	r := s.want(true, "/v1/reserve", `{"cost": 500}`)
	if got := s.call("/v1/settle", `{"token": "`+r.Token+`", "cost": 123}`); got.status != http.StatusOK || got.Charges != 3 {
		t.Fatalf("want all three charges settled, got %+v", got)
	}
	for rule, want := range map[string]int64{"requests": 9, "tokens": 877, "running": 3} {
		if got := s.remaining(rule); got != want {
			t.Errorf("%s: %d remain, want %d", rule, got, want)
		}
	}
}

func TestBadReservationsTakeNothing(t *testing.T) {
	s := serve(t, budget, nil)
	for path, bodies := range map[string]map[string]string{
		"/v1/reserve": {`{"ttl_ms": 0}`: "ttl_ms", `{"ttl_ms": 3600001}`: "ttl_ms", `{"ttl": "1s"}`: "ttl", `{"cost": -1}`: "cost"},
		"/v1/settle":  {`{"token": "x"}`: "cost", `{"cost": 1}`: "token", `{"token": "x", "cost": -1}`: "cost", `{"token": 7, "cost": 1}`: "token"},
		"/v1/cancel":  {`{}`: "token", `{"token": ""}`: "token", `{"token": "x", "cost": 1}`: "cost"},
	} {
		for body, field := range bodies {
			if r := s.call(path, body); r.status != http.StatusBadRequest || r.Field != field || r.Remedy == "" {
				t.Errorf("%s %s: status %d, field %q, remedy %q", path, body, r.status, r.Field, r.Remedy)
			}
		}
	}
	if got := s.remaining("budget"); got != 10 {
		t.Errorf("%d of 10 remain", got)
	}
}

// endless is a store that cannot end what it began.
type endless struct{ sluice.Store }

func (endless) Settle(context.Context, sluice.Charge, int64) error { return errBroken }

func TestAnEndThatFailsSaysSo(t *testing.T) {
	s := serve(t, budget, func(o *Options) { o.Decider = deciding(t, o.Decider.Policy(), endless{o.Decider.Store()}) })
	token := s.want(true, "/v1/reserve", `{}`).Token
	if r := s.call("/v1/settle", `{"token": "`+token+`", "cost": 0}`); r.status != http.StatusServiceUnavailable || r.Remedy == "" {
		t.Errorf("the end failed in the store, but got %+v", r)
	}
	if r := s.call("/v1/settle", `{"token": "`+token+`", "cost": 0}`); r.status != http.StatusNotFound {
		t.Errorf("the token works again, although the outcome of the first end is unknown: %d", r.status)
	}
}

func TestResetNeedsLeave(t *testing.T) {
	authorized := func(r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer secret" {
			return errors.New("send the token")
		}
		return nil
	}
	s := serve(t, perClient, func(o *Options) { o.Authorize = authorized })
	const all, one = `{"client_ip": "192.0.2.1", "cost": 2}`, `{"client_ip": "192.0.2.1"}`
	s.want(true, "/v1/check", all)
	for _, token := range []string{"", "guess"} {
		s.token = token
		r := s.call("/v1/reset", one)
		if r.status != http.StatusUnauthorized || r.Remedy != "send the token" || r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("token %q: %+v", token, r)
		}
		s.want(false, "/v1/check", one)
	}
	s.token = "secret"
	if r := s.call("/v1/reset", one); r.status != http.StatusOK || len(r.Rules) != 1 || r.Rules[0] != "per-client" {
		t.Errorf("a reset with the token: %+v", r)
	}
	s.want(true, "/v1/check", all)
	if r := s.call("/v1/reset", `{"rule": "per-client", "key": ["192.0.2.1"]}`); r.status != http.StatusOK || len(r.Rules) != 1 {
		t.Errorf("a reset by the rule's name: %+v", r)
	}
	s.want(true, "/v1/check", all)
	for body, field := range map[string]string{
		`{"rule": "nobody", "key": "x"}`:        "rule",
		`{"client_ip": "192.0.2.1", "cost": 1}`: "cost",
		`{"max_wait_ms": 1}`:                    "max_wait_ms",
	} {
		if r := s.call("/v1/reset", body); r.status != http.StatusBadRequest || r.Field != field || r.Remedy == "" {
			t.Errorf("%s: want a mistake in %s, got %+v", body, field, r)
		}
	}
}

func TestNobodyResetsWithoutAToken(t *testing.T) {
	s := serve(t, perClient, nil)
	s.token = "anything"
	if r := s.call("/v1/reset", `{"client_ip": "192.0.2.1"}`); r.status != http.StatusUnauthorized {
		t.Errorf("status %d", r.status)
	}
}

// A cancelled reservation gives back all of it, also if it had no delay, for every algorithm and every source of
// costs: as settling at 0 does.
func TestCancelGivesBackWhatWasNotUsed(t *testing.T) {
	for _, limit := range []string{
		"{algorithm: token_bucket, rate: 10/h}", "{algorithm: leaky_bucket, rate: 10/h, queue: 9, undelayed: 9}",
		"{algorithm: fixed_window, rate: 10/h}", "{algorithm: sliding_window, rate: 10/h}", "{algorithm: sliding_counter, rate: 10/h}",
		"{algorithm: sliding_log, rate: 10/h}", "{algorithm: concurrency, max: 10}",
	} {
		for _, cost := range []string{"", ", cost: 3", ", cost: {header: X-Cost, units: 3}"} {
			s := serve(t, "rules: [{name: budget, key: [global], limit: "+limit+cost+"}]", nil)
			before := s.want(true, "/v1/peek", `{}`)
			r := s.want(true, "/v1/reserve", `{}`)
			if *r.Remaining >= *before.Remaining && limit != "{algorithm: concurrency, max: 10}" {
				t.Errorf("%s%s: the reservation took nothing: %+v", limit, cost, r)
			}
			if r := s.call("/v1/cancel", `{"token": "`+r.Token+`"}`); r.status != http.StatusOK || r.Charges != 1 {
				t.Errorf("%s%s: cancelling should give one charge back: %+v", limit, cost, r)
			}
			if after := s.want(true, "/v1/peek", `{}`); *after.Remaining != *before.Remaining {
				t.Errorf("%s%s: %d remain after the cancellation, %d before the reservation", limit, cost, *after.Remaining, *before.Remaining)
			}
		}
	}
}

// A reservation with give_back comes back when its token expires. Until it is ended, all of it is charged; settled or
// released it stays, whatever the rule says of costs.
func TestReservationsThatAreGivenBack(t *testing.T) {
	s := serve(t, "rules:\n  - {name: budget, key: [global], limit: {algorithm: token_bucket, rate: 10/d}}\n"+
		"  - {name: fixed, key: [global], cost: 3, limits: [{algorithm: fixed_window, rate: 10/d, starts: first_request}, {algorithm: concurrency, max: 5}]}", nil)
	reserve := func(rule, more string) reply {
		t.Helper()
		return s.want(true, "/v1/reserve", `{"rule": "`+rule+`", "key": [], "cost": 3, "give_back": true`+more+`}`)
	}
	for _, end := range []string{"settle", "release"} {
		body := `{"token": "` + reserve("fixed", `, "ttl_ms": 60000`).Token + `"`
		if end == "settle" {
			body += `, "cost": 1`
		}
		if r := s.call("/v1/"+end, body+"}"); !r.Ended || r.Charges != 2 {
			t.Errorf("%s answers %+v, want the end of two charges", end, r)
		}
	}
	if d := s.call("/v1/peek", `{"rule": "fixed", "key": []}`); *d.Limits[0].Remaining != 4 {
		t.Errorf("a rule that names its cost: %+v", d.Limits)
	}
	if r := s.call("/v1/cancel", `{"token": "`+reserve("budget", "").Token+`"}`); !r.Ended || s.remaining("budget") != 10 {
		t.Errorf("cancelled: %+v, %d remain", r, s.remaining("budget"))
	}
	if r := s.call("/v1/settle", `{"token": "`+reserve("budget", "").Token+`", "cost": 1}`); !r.Ended || s.remaining("budget") != 9 {
		t.Errorf("settled at one: %+v, %d remain", r, s.remaining("budget"))
	}
	reserve("budget", `, "ttl_ms": 1`)
	for s.remaining("budget") != 9 {
		runtime.Gosched() // until the token has expired
	}
}
