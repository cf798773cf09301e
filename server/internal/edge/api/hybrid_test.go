package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// hybrid makes the call that lists hybrid limits.
func (s *service) hybrid(query string) (status int, list hybrids, text string) {
	s.t.Helper()
	status, text = s.list("/v1/hybrid"+query, &list)
	return status, list, text
}

// The list has the hybrid limits of a rule, and the keys as their rule has them.
func TestListsHybridLimits(t *testing.T) {
	var wanted string
	var most int
	s := serve(t, bannable, func(o *Options) {
		operators(o)
		o.Hybrid = func(rule string, n int) ([]HybridLimit, []HybridKey, bool) {
			wanted, most = rule, n
			return []HybridLimit{
					{Limit: "strict", Bound: "never more", Keys: 2, Under: 5, Escrow: 5, Unspent: 3, Local: 100, Cached: 2, Exact: 1, LastSync: time.Now().Add(-time.Second)},
					{Limit: "strict/2", Bound: "never more", Excess: 3},
				}, []HybridKey{
					{Limit: "strict/2", Key: sluice.StringKey("192.0.2.1"), Escrow: 5, Holders: 2, Unspent: 3, Unreported: 1, Age: 50 * time.Millisecond, Till: -time.Second},
					{Limit: "gone", Key: sluice.NewKey("a", "b"), Escrow: 1, Holders: 1},
				}, true
		}
	})
	status, list, text := s.hybrid("?rule=strict&most=2")
	if status != http.StatusOK || len(list.Limits) != 2 || len(list.Keys) != 2 || !list.More || wanted != "strict" || most != 2 {
		t.Fatalf("%d %s; wanted %q, %d", status, text, wanted, most)
	}
	if l := list.Limits[0]; l.Rule != "strict" || l.Local != 100 || l.LastSyncMS == nil || *l.LastSyncMS < 1000 {
		t.Errorf("%+v", l)
	}
	if l := list.Limits[1]; l.Rule != "strict" || l.Limit != "strict/2" || l.Excess != 3 || l.LastSyncMS != nil {
		t.Errorf("%+v", l)
	}
	if k := list.Keys[0]; k.Rule != "strict" || k.Key[0] != "192.0.2.1" || k.Escrow != 5 || k.Holders != 2 || k.AgeMS != 50 || k.TillMS != 0 || len(k.Digest) != 16 {
		t.Errorf("%+v", k)
	}
	if k := list.Keys[1]; len(k.Key) != 2 {
		t.Errorf("a key of a rule that is gone: %+v", k)
	}
	if status, _, text := s.hybrid("?rule=none"); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
}

// Without hybrid limits, both lists are empty. The call is for operators.
func TestListsNoHybridLimits(t *testing.T) {
	s := serve(t, bannable, operators)
	if status, list, text := s.hybrid(""); status != http.StatusOK || list.Limits == nil || list.Keys == nil || len(list.Limits)+len(list.Keys) > 0 {
		t.Errorf("%d %s", status, text)
	}
	s = serve(t, bannable, nil)
	if status, _, text := s.hybrid(""); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, text)
	}
}
