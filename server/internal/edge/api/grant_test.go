package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

const granting = `
rules:
  - {name: tenants, key: 'header:X-Tenant', limits: [{algorithm: fixed_window, rate: 10/d}, {algorithm: token_bucket, rate: 1/d, burst: 20}, {algorithm: sliding_log, rate: 30/d}]}
  - {name: mixed, match: {path: /m}, key: 'header:X-Tenant', limits: [{algorithm: fixed_window, rate: 10/d}, {algorithm: leaky_bucket, rate: 1/d, queue: 9}]}
  - {name: flights, match: {path: /f}, key: 'header:X-Tenant', limit: {algorithm: concurrency, max: 3, ttl: 1m}}
`

// left returns what a key of tenants has left of each limit.
func (s *service) left(key string) (left []int64) {
	s.t.Helper()
	_, u, text := s.usage("rule=tenants&key=" + key)
	for _, l := range u.Limits {
		if l.Remaining == nil {
			s.t.Fatalf("usage: %s", text)
		}
		left = append(left, *l.Remaining)
	}
	return left
}

// TestGrantsGiveUnitsBack: all limits get the units, never more than was used, and a repeated call gives nothing more. Each grant is
// recorded before it takes effect.
func TestGrantsGiveUnitsBack(t *testing.T) {
	var records []string
	var refuse error
	var s *service
	s = serve(t, granting, func(o *Options) {
		operators(o)
		o.BeforeChange = func(_ *http.Request, c Change) error {
			records = append(records, fmt.Sprintf("%s %v %d %s %v", c.Action, c.Rules, c.Units, c.Note, s.left("acme")))
			return refuse
		}
	})
	grant := func(units int64, idempotency string) reply {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/grant",
			strings.NewReader(fmt.Sprintf(`{"rule": "tenants", "key": ["acme"], "units": %d, "note": "ticket 12"}`, units)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if idempotency != "" {
			r.Header.Set(idempotencyHeader, idempotency)
		}
		return s.send(r)
	}
	take := func(units int64) {
		s.want(true, "/v1/check", fmt.Sprintf(`{"rule": "tenants", "key": ["acme"], "cost": %d}`, units))
	}
	take(10)
	for i, step := range []struct {
		units  int64
		repeat string
		want   []int64
	}{
		{4, "", []int64{4, 14, 24}}, {1, "once", []int64{5, 15, 25}}, {1, "once", []int64{5, 15, 25}}, {1 << 53, "", []int64{10, 20, 30}}, {7, "", []int64{10, 20, 30}},
	} {
		if r := grant(step.units, step.repeat); r.status != http.StatusOK || !slices.Equal(s.left("acme"), step.want) {
			t.Errorf("grant %d: %d %s, and %v are left, want %v", i, r.status, r.Detail, s.left("acme"), step.want)
		}
	}
	want := []string{
		"grant [tenants] 4 ticket 12 [0 10 20]", "grant [tenants] 1 ticket 12 [4 14 24]", fmt.Sprintf("grant [tenants] %d ticket 12 [5 15 25]", int64(1)<<53), "grant [tenants] 7 ticket 12 [10 20 30]",
	}
	if !slices.Equal(records, want) {
		t.Errorf("the records are\n%q, want\n%q", records, want)
	}
	take(6)
	refuse = errors.New("the disk is full")
	if r := grant(2, ""); r.status != http.StatusServiceUnavailable || !slices.Equal(s.left("acme"), []int64{4, 14, 24}) {
		t.Errorf("without a record: %d, and %v are left", r.status, s.left("acme"))
	}
	if n := s.left("other"); !slices.Equal(n, []int64{10, 20, 30}) {
		t.Errorf("another key has %v", n)
	}
}

// half is a store that loses replies to settlements, or fails before some of them.
type half struct {
	sluice.Store
	fails func() (before, after error)
}

func (h *half) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	before, after := h.fails()
	if before != nil {
		return before
	}
	return errors.Join(h.Store.Settle(ctx, c, actual), after)
}

// TestGrantsOfUnknownOutcomeAreNotRepeated: if units may have come back, the same call with its key gives no more. If none came back, it
// gives them.
func TestGrantsOfUnknownOutcomeAreNotRepeated(t *testing.T) {
	down := errors.New("down")
	for name, x := range map[string]struct {
		before, after [3]error // of the settlement of each limit
		first, second []int64
	}{
		"a lost reply": {after: [3]error{sluice.ErrUnknownOutcome}, first: []int64{4, 14, 24}, second: []int64{4, 14, 24}},
		"a part":       {before: [3]error{nil, down, down}, first: []int64{4, 10, 20}, second: []int64{4, 10, 20}},
		"nothing":      {before: [3]error{down, down, down}, first: []int64{0, 10, 20}, second: []int64{4, 14, 24}},
	} {
		n, fails := 0, true
		s := serve(t, granting, func(o *Options) {
			operators(o)
			o.Decider = deciding(t, o.Decider.Policy(), &half{Store: o.Decider.Store(), fails: func() (before, after error) {
				if n++; fails {
					return x.before[n-1], x.after[n-1]
				}
				return nil, nil
			}})
		})
		s.want(true, "/v1/check", `{"rule": "tenants", "key": ["acme"], "cost": 10}`)
		const body = `{"rule": "tenants", "key": ["acme"], "units": 4}`
		if r := s.repeat("ticket-12", "/v1/grant", body); r.status != http.StatusServiceUnavailable || !slices.Equal(s.left("acme"), x.first) {
			t.Errorf("%s: %d %s, and %v are left, want %v", name, r.status, r.Detail, s.left("acme"), x.first)
		}
		fails = false
		again := s.repeat("ticket-12", "/v1/grant", body)
		if got := s.left("acme"); !slices.Equal(got, x.second) || (again.status == http.StatusOK) != (name == "nothing") {
			t.Errorf("%s: the repeated call is answered %d, and %v are left, want %v", name, again.status, got, x.second)
		}
	}
}

// TestWrongGrantsChangeNothing names the field and the remedy of each mistake. A rule with one limit that cannot take units back
// gives none to its other limits.
func TestWrongGrantsChangeNothing(t *testing.T) {
	recorded := 0
	s := serve(t, granting, func(o *Options) {
		operators(o)
		o.BeforeChange = func(*http.Request, Change) error { recorded++; return nil }
	})
	s.want(true, "/v1/check", `{"rule": "tenants", "key": ["acme"], "cost": 5}`)
	for body, want := range map[string]string{
		`{}`:                              "rule",
		`{"rule": "none", "units": 1}`:    "rule",
		`{"rule": "tenants", "units": 1}`: "key",
		`{"rule": "tenants", "key": "a"}`: "units",
		`{"rule": "tenants", "key": ["acme", "x"], "units": 1}`:                                      "key",
		`{"rule": "tenants", "key": "acme", "units": 0}`:                                             "units",
		`{"rule": "tenants", "key": "acme", "units": -3}`:                                            "units",
		`{"rule": "tenants", "key": "acme", "units": 1.5}`:                                           "units",
		`{"rule": "tenants", "key": "acme", "units": 9007199254740993}`:                              "units",
		`{"rule": "tenants", "key": "acme", "units": 92233720368547758089}`:                          "units",
		`{"rule": "tenants", "key": "acme", "units": "many"}`:                                        "units",
		`{"rule": "tenants", "key": "acme", "units": 1, "unit": 2}`:                                  "unit",
		`{"rule": "tenants", "key": "acme", "units": 1, "note": "two\nlines"}`:                       "note",
		`{"rule": "tenants", "key": "acme", "units": 1, "note": "` + strings.Repeat("x", 513) + `"}`: "note",
	} {
		if r := s.call("/v1/grant", body); r.status != http.StatusBadRequest || r.Field != want || r.Remedy == "" {
			t.Errorf("%.80s: %d, field %q, %q; %q", body, r.status, r.Field, r.Detail, r.Remedy)
		}
	}
	if recorded > 0 {
		t.Errorf("%d calls that are wrong were recorded as begun", recorded)
	}
	for _, rule := range []string{"mixed", "flights"} {
		if r := s.call("/v1/grant", `{"rule": "`+rule+`", "key": "acme", "units": 1}`); r.status != http.StatusConflict || r.Field != "rule" || !strings.Contains(r.Remedy, "override") {
			t.Errorf("a grant of rule %s is answered %d %s; %s", rule, r.status, r.Detail, r.Remedy)
		}
	}
	if n := s.left("acme"); !slices.Equal(n, []int64{5, 15, 25}) {
		t.Errorf("after calls that are wrong, %v are left", n)
	}
	if r := serve(t, granting, nil).call("/v1/grant", `{"rule": "tenants", "key": "acme", "units": 1}`); r.status != http.StatusUnauthorized {
		t.Errorf("without authorization: %d", r.status)
	}
}
