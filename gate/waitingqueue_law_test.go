package gate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// Requests come and leave in any order, and clocks may jump. Never do more run than the limit allows. No unit
// stays free for long while a request waits, and no lease or waiting request remains at the end.
func TestNoUnitStaysFree(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			const most, clients = 3, 80
			r := rand.New(rand.NewPCG(seed, 1))
			var back atomic.Int64 // how far the store's clock is behind, in microseconds
			store, err := memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return time.Now().UnixMicro() - back.Load() }})
			if err != nil {
				t.Fatal(err)
			}
			rule := policy.Rule{
				Name: "flight", Key: []policy.Part{policy.Global()}, MaxWait: 24 * time.Hour,
				Limits: limit(sluice.Concurrency{Max: most, Queue: clients, TTL: time.Hour, Latency: 500 * time.Millisecond}),
			}
			edges := []*edge{newEdge(t, store, gate.Options{}, rule), newEdge(t, store, gate.Options{}, rule)}
			var running, waiting, admitted atomic.Int64
			var all sync.WaitGroup
			for range clients {
				e := edges[r.IntN(2)]
				lasts, patience := time.Duration(r.IntN(3000))*time.Millisecond, time.Duration(0)
				if r.IntN(4) == 0 {
					patience = time.Duration(1+r.IntN(20_000)) * time.Millisecond
				}
				if seed%3 != 0 && r.IntN(3) == 0 { // otherwise many come at the same moment
					<-time.After(time.Duration(r.IntN(300)) * time.Millisecond)
				}
				if seed%4 == 3 && r.IntN(10) == 0 {
					back.Add(int64(r.IntN(5_000_000)))
				}
				all.Go(func() {
					ctx := t.Context()
					if patience > 0 {
						var leave context.CancelFunc
						ctx, leave = context.WithCancel(ctx)
						defer time.AfterFunc(patience, leave).Stop()
						defer leave()
					}
					waiting.Add(1)
					v := e.decide(ctx, "all")
					pass, err := e.gate.Enter(ctx, &v)
					waiting.Add(-1)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					admitted.Add(1)
					if n := running.Add(1); n > most {
						t.Errorf("seed %d: %d run at once", seed, n)
					}
					<-time.After(lasts)
					running.Add(-1)
					pass.Leave(ctx, status(200))
				})
			}
			done := make(chan struct{})
			go func() {
				all.Wait()
				close(done)
			}()
			var free time.Duration
			var before int64 // admitted until the last tick
			for tick := 50 * time.Millisecond; ; {
				select {
				case <-done:
					for _, e := range edges {
						if e.gate.Waiting() != 0 || len(e.reported()) > 0 || e.remaining("flight") != most+clients {
							t.Errorf("seed %d: %d wait, %d units are left, reported %v", seed, e.gate.Waiting(), e.remaining("flight"), e.reported())
						}
					}
					return
				case <-time.After(tick):
				}
				free += tick
				// After an admission, a unit that is still free is another one.
				now := admitted.Load()
				if running.Load() == most || waiting.Load() == 0 || now != before {
					free, before = 0, now
				}
				bound := 3 * time.Second
				if seed%4 == 3 {
					bound = 20 * time.Second // the order differs from the store's order, and finding that out takes time
				}
				if free > bound {
					t.Fatalf("seed %d: %d run and %d wait, for %v", seed, running.Load(), waiting.Load(), free)
				}
			}
		})
	}
}
