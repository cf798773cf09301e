package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/server/internal/wire"
)

const used = `
rules:
  - {name: tenants, key: ['header:X-Tenant', 'header:X-User'], limits: [{algorithm: fixed_window, rate: 10/d}, {algorithm: sliding_window, rate: 20/d}]}
  - {name: flights, match: {path: /f}, key: 'header:X-Tenant', limit: {algorithm: concurrency, max: 3, ttl: 1m}}
  - {name: listed, match: {path: /l}, key: client_ip, limit: {algorithm: fixed_window, rate: 10/d}, allow: {client_ip: 192.0.2.1}}
  - {name: strict, match: {path: /s}, key: client_ip, limit: {algorithm: fixed_window, rate: 10/d}, ban: {by_hand: true}}
`

// usage makes the call about the usage of a key.
func (s *service) usage(query string) (status int, u wire.Usage, text string) {
	s.t.Helper()
	status, text = s.list("/v1/usage?"+query, &u)
	return status, u, text
}

// TestUsageOfAKey shows what a key has used of each limit, and changes nothing, however often it is called.
func TestUsageOfAKey(t *testing.T) {
	var store *memory.Store
	s := serve(t, used, func(o *Options) { store, _ = o.Decider.Store().(*memory.Store) })
	if store == nil {
		t.Fatal("the API decides in another store than memory")
	}
	_, _, fresh := s.usage("rule=tenants&key=acme&key=ann")
	for range 100 {
		if _, _, again := s.usage("rule=tenants&key=never&key=seen"); again != fresh {
			t.Fatalf("a key that was never seen: %s, want the same as for others: %s", again, fresh)
		}
	}
	if n := store.Stats().Keys; n != 0 {
		t.Errorf("after looks at keys that were never seen, the store has %d", n)
	}
	s.want(true, "/v1/check", `{"rule": "tenants", "key": ["acme", "ann"], "cost": 4}`)
	for range 3 {
		status, u, text := s.usage("rule=tenants&key=acme&key=ann")
		if status != http.StatusOK || !u.Allowed || len(u.Limits) != 2 {
			t.Fatalf("usage: %d %s", status, text)
		}
		for i, capacity := range []int64{10, 20} {
			if l := u.Limits[i]; l.Capacity != capacity || *l.Used != 4 || *l.Remaining != capacity-4 || l.ResetAfterMS == nil || l.Role != "enforced" {
				t.Errorf("limit %d after 4 units: %s", i, text)
			}
		}
	}
	s.want(true, "/v1/check", `{"rule": "tenants", "key": ["acme", "ann"], "cost": 6}`)
	if _, u, text := s.usage("rule=tenants&key=acme&key=ann"); u.Allowed || u.Reason != "limited" || *u.Limits[0].Used != 10 || u.Limits[0].RetryAfterMS == nil || !u.Limits[1].Allowed {
		t.Errorf("usage of a limited key: %s", text)
	}
	if _, u, text := s.usage("rule=listed&key=192.0.2.1"); !u.Allowed || len(u.Limits) != 1 || u.Limits[0].Listed != "allow" || u.Limits[0].Used != nil {
		t.Errorf("usage of a listed key: %s", text)
	}
	if err := s.api.o.Decider.Ban(t.Context(), 3600e9, "strict", "192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	if _, u, text := s.usage("rule=strict&key=192.0.2.7"); u.Allowed || u.Reason != "banned" || u.Limits[0].Used != nil || u.Limits[0].RetryAfterMS == nil {
		t.Errorf("usage of a banned key: %s", text)
	}
}

// TestWrongLooksNameTheParameter refuses calls that name no key of a rule.
func TestWrongLooksNameTheParameter(t *testing.T) {
	s := serve(t, bannable, nil)
	for query, want := range map[string]string{
		"": "?rule", "rule=": "?rule", "rule=login&rule=plain": "?rule", "rule=none": "?rule", "rule=login&key=192.0.2.1": "?key",
		"rule=plain&key=192.0.2.1&key=x": "?key", "rule=plain&key=nonsense": "?key", "rule=plain&most=3": "?most", "rule=plain&key=%zz": "?",
	} {
		status, _, text := s.usage(query)
		var p problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || status != http.StatusBadRequest || p.Field != want || p.Remedy == "" {
			t.Errorf("%s: want a mistake in %s with a remedy, got %d %s", query, want, status, text)
		}
	}
}
