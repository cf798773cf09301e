package api

import (
	"net/http"
	"testing"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// hybrid makes the call that lists hybrid limits.
func (s *service) hybrid(query string) (status int, list wire.Hybrid, text string) {
	s.t.Helper()
	status, text = s.list("/v1/hybrid"+query, &list)
	return status, list, text
}

// The list has the hybrid limits of a rule, and keys.
func TestListsHybridLimits(t *testing.T) {
	var wanted string
	var most int
	s := serve(t, bannable, func(o *Options) {
		operators(o)
		o.Hybrid = func(rule string, n int) wire.Hybrid {
			wanted, most = rule, n
			return wire.Hybrid{
				Limits: []wire.HybridLimit{{Rule: "strict", Limit: "strict/2", Bound: "never more", Excess: 3}},
				Keys:   []wire.HybridKey{{Rule: "strict", Limit: "strict/2", Key: []string{"192.0.2.1"}, Digest: "0123456789abcdef", Escrow: 5}},
				More:   true,
			}
		}
	})
	status, list, text := s.hybrid("?rule=strict&most=2")
	if status != http.StatusOK || len(list.Limits) != 1 || len(list.Keys) != 1 || !list.More || wanted != "strict" || most != 2 {
		t.Fatalf("%d %s; wanted %q, %d", status, text, wanted, most)
	}
	if l, k := list.Limits[0], list.Keys[0]; l.Excess != 3 || k.Key[0] != "192.0.2.1" || k.Escrow != 5 {
		t.Errorf("the excess of limit and the escrow of key: %+v %+v", l, k)
	}
	if status, _, text := s.hybrid("?rule=none"); status != http.StatusBadRequest {
		t.Errorf("an unknown rule should be refused: %d %s", status, text)
	}
}

// Without hybrid limits, both lists are empty. The call is for operators.
func TestListsNoHybridLimits(t *testing.T) {
	s := serve(t, bannable, operators)
	if status, list, text := s.hybrid(""); status != http.StatusOK || list.Limits == nil || list.Keys == nil || len(list.Limits)+len(list.Keys) > 0 {
		t.Errorf("want two empty lists, got %d %s", status, text)
	}
	s = serve(t, bannable, nil)
	if status, _, text := s.hybrid(""); status != http.StatusUnauthorized {
		t.Errorf("want the call refused without a token, got %d %s", status, text)
	}
}
