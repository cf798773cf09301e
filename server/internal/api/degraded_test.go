package api

import (
	"context"
	"net/http"
	"testing"

	"github.com/sluicehq/sluice"
)

// standIn is a store for which something else decides about one limit.
type standIn struct {
	sluice.Store
	limit string
}

func (s standIn) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	err := s.Store.DecideAll(ctx, rs, out)
	for i := range rs {
		out[i].Degraded = rs[i].Limit.Name() == s.limit
	}
	return err
}

func TestSaysThatADecisionIsDegraded(t *testing.T) {
	for limit, want := range map[string]bool{"b": true, "other": false} {
		s := serve(t, `
rules:
  - {name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/m}}
  - {name: b, key: client_ip, limit: {algorithm: token_bucket, rate: 9/m}}
`, func(o *Options) {
			d, _ := o.Decider.(decider) // serve made it
			o.Decider = decider{d.policy, standIn{d.store, limit}}
		})
		r := s.call("/v1/check", `{"method": "GET", "path": "/", "client_ip": "192.0.2.1"}`)
		if r.status != http.StatusOK || len(r.Limits) != 2 {
			t.Fatalf("%+v", r)
		}
		if r.Degraded != want || r.Limits[0].Degraded || r.Limits[1].Degraded != want {
			t.Errorf("degraded is %t, and %t and %t of the limits; want %t for the second", r.Degraded, r.Limits[0].Degraded, r.Limits[1].Degraded, want)
		}
	}
}
