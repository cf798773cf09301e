package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
)

// remote is in place of a store on a network that can be cut.
type remote struct {
	*memory.Store
	cut bool
}

func (r *remote) Decide(ctx context.Context, q sluice.Request) (sluice.Decision, error) {
	if r.cut {
		return sluice.Decision{}, errors.New("connection refused")
	}
	return r.Store.Decide(ctx, q)
}

// One of four processes that share a store. While the store is down, each process limits
// requests to its fourth, and refuses logins.
func Example() {
	mem, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	local, err := memory.New(memory.Options{MaxBytes: 16 << 20})
	if err != nil {
		panic(err)
	}
	shared := &remote{Store: mem}
	store, err := guard.New(guard.Options{
		Store: shared,
		Local: local,
		Share: sluice.Share{Of: 1, Parts: 4},
		Fallback: func(l *sluice.Limit) sluice.Fallback {
			if l.Name() == "login" {
				return sluice.FallbackDeny
			}
			return sluice.FallbackLocal
		},
		Failures: 3,
		OnTransition: func(from, to guard.State, why error) {
			fmt.Printf("from %v to %v: %v\n", from, to, why)
		},
	})
	if err != nil {
		panic(err)
	}
	api := sluice.NewLimiter(store, sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerDay(20)}))
	login := sluice.NewLimiter(store, sluice.MustLimit("login", sluice.TokenBucket{Rate: sluice.PerMinute(5)}))
	decide := func(l *sluice.Limiter) {
		d, err := l.Allow(context.Background(), sluice.StringKey("192.0.2.1"))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: allowed %v, %d of %d remain, degraded %v\n", l.Limit().Name(), d.Allowed, d.Remaining, d.Limit, d.Degraded)
	}
	decide(api)
	shared.cut = true
	decide(api)
	decide(login)
	decide(api)
	shared.cut = false
	for store.State() != guard.StateClosed { // until a probe has succeeded
		<-time.After(10 * time.Millisecond)
		_, _ = api.Peek(context.Background(), sluice.StringKey("192.0.2.1"))
	}
	decide(api)
	// Output:
	// api: allowed true, 19 of 20 remain, degraded false
	// api: allowed true, 4 of 5 remain, degraded true
	// login: allowed false, 0 of 5 remain, degraded true
	// from closed to open: connection refused
	// api: allowed true, 3 of 5 remain, degraded true
	// from open to half-open: <nil>
	// from half-open to closed: <nil>
	// api: allowed true, 18 of 20 remain, degraded false
}
