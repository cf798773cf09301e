package api

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/sluicehq/sluice"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// listed makes the call that lists keys.
func (s *service) listed(query string) (status int, list wire.Keys, text string) {
	s.t.Helper()
	status, text = s.list("/v1/keys"+query, &list)
	return status, list, text
}

// The list has each key's last denial, and what is left for it now, in the store.
func TestListsDeniedKeys(t *testing.T) {
	var wanted string
	var most int
	denied := []wire.DeniedKey{
		{Rule: "strict", Key: []string{"192.0.2.1"}, Digest: "0123456789abcdef", Limit: "strict", Role: "enforced", Reason: "limited", Denials: 3, LastMS: 1000},
		{Rule: "plain", Digest: "fedcba9876543210", Limit: "plain", Role: "shadow", Reason: "too-soon", Denials: 1},
		{Rule: "gone", Key: []string{"x"}, Digest: "fedcba9876543210", Limit: "gone", Role: "enforced", Reason: "limited", Denials: 1},
	}
	s := serve(t, bannable, func(o *Options) {
		operators(o)
		o.DeniedKeys = func(_ context.Context, rule string, n int) wire.Keys {
			wanted, most = rule, n
			return wire.Keys{Keys: denied, More: true}
		}
	})
	s.want(true, "/v1/check", `{"rule": "strict", "key": "192.0.2.1"}`)
	status, list, text := s.listed("?rule=strict&most=3")
	if status != http.StatusOK || len(list.Keys) != 3 || !list.More || wanted != "strict" || most != 3 {
		t.Fatalf("%d %s; wanted %q, %d", status, text, wanted, most)
	}
	k := list.Keys[0]
	if k.Key[0] != "192.0.2.1" || k.Denials != 3 || k.LastMS < 1000 || k.Reason != "limited" || k.Role != "enforced" {
		t.Errorf("want the last denial of the first key, got %+v", k)
	}
	if k.Now == nil || k.Now.Allowed || *k.Now.Remaining != 0 || k.Now.Capacity != 1 || k.Now.RetryAfterMS == nil {
		t.Errorf("now: %+v", k.Now)
	}
	if k := list.Keys[1]; k.Key != nil || k.Now != nil || k.Role != "shadow" {
		t.Errorf("a key that is not kept: %+v", k)
	}
	if k := list.Keys[2]; k.Now != nil {
		t.Errorf("a key of a rule that is gone: %+v", k)
	}
	// Looking takes nothing, and the default is 100 keys of all rules.
	denied = nil
	if status, list, _ := s.listed(""); status != http.StatusOK || len(list.Keys) > 0 || wanted != "" || most != 100 {
		t.Errorf("%d %+v; wanted %q, %d", status, list, wanted, most)
	}
}

func TestRefusesBadListsOfKeys(t *testing.T) {
	s := serve(t, bannable, operators)
	for query, want := range map[string]string{
		"?rule=none": "?rule", "?limited=no": "?limited", "?most=0": "?most", "?most=1001": "?most", "?most=x": "?most", "?from=1": "?from",
	} {
		status, _, text := s.listed(query)
		var p problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || status != http.StatusBadRequest || p.Field != want {
			t.Errorf("%s: want a mistake in %s, got %d %s", query, want, status, text)
		}
	}
	if status, _, text := serve(t, bannable, nil).listed(""); status != http.StatusUnauthorized {
		t.Errorf("without authorization: %d %s", status, text)
	}
}

// fallback is a store that does not answer: the fallback of each rule decides.
type fallback struct{ sluice.Store }

func (f fallback) Decide(_ context.Context, r sluice.Request) (sluice.Decision, error) {
	allowed := r.Limit.Name() == "plain"
	d := sluice.Decision{Allowed: allowed, Degraded: true, Limit: r.Limit.Capacity()}
	if !allowed {
		d.Reason = sluice.ReasonStoreError
	}
	return d, nil
}

// While the store does not answer, the list says so. Keys of rules that deny then are limited, and what is left is not known.
func TestLimitedKeysWithoutTheStore(t *testing.T) {
	s := serve(t, bannable, func(o *Options) {
		operators(o)
		o.Decider = deciding(t, o.Decider.Policy(), fallback{o.Decider.Store()})
		o.DeniedKeys = func(context.Context, string, int) (l wire.Keys) {
			for _, rule := range []string{"strict", "plain"} {
				l.Keys = append(l.Keys, wire.DeniedKey{Rule: rule, Key: []string{"192.0.2.1"}, Digest: "0123456789abcdef", Limit: rule, Role: "enforced", Reason: "limited", Denials: 1})
			}
			return l
		}
	})
	for query, want := range map[string]int{"": 2, "?limited=true": 1} {
		_, list, text := s.listed(query)
		if len(list.Keys) != want || !list.Degraded || list.Keys[0].Rule != "strict" {
			t.Fatalf("%s: %s; want %d keys by fallbacks", query, text, want)
		}
		if now := list.Keys[0].Now; now == nil || now.Allowed || now.Reason != "store-error" || now.Remaining != nil || !now.Degraded {
			t.Errorf("%s: a key that the fallback denies: %+v", query, now)
		}
	}
}
