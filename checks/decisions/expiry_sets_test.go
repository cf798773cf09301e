package decisions

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestSetsLiveUntilFresh: what is kept of a log or of leases is there as long as it
// differs from a fresh state, and no longer.
func TestSetsLiveUntilFresh(t *testing.T) {
	server := redistest.Start(t)
	conn, err := server.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, a := range []sluice.Algorithm{
		sluice.SlidingLog{Rate: sluice.Per(10, 20*time.Millisecond)},
		sluice.SlidingLog{Rate: sluice.Per(10, 20*time.Millisecond), CountDenied: true},
		sluice.Concurrency{Max: 5, Queue: 3, TTL: 10 * time.Millisecond, Latency: time.Millisecond},
	} {
		word := "log"
		if _, leases := a.(sluice.Concurrency); leases {
			word = "leases"
		}
		t.Run(a.String(), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			s, err := redisstore.New(plainClient{conn}, redisstore.Options{Prefix: fmt.Sprintf("live-%d", i)})
			if err != nil {
				t.Fatal(err)
			}
			limit := sluice.MustLimit("limit", a)
			name := fmt.Sprintf("live-%d{k}%s:limit", i, word)
			ctx := t.Context()
			var charges []sluice.Charge
			// Times to live are 20 milliseconds longer, and the server may be held up more.
			slack := 23 * time.Millisecond
			for range 400 {
				r := sluice.Request{Limit: limit, Key: sluice.StringKey("k"), Cost: 1 + rnd.Int64N(3), Member: 1 + rnd.Uint64N(8)}
				begin := time.Now()
				switch n := rnd.IntN(3); {
				case n > 0 || len(charges) == 0:
					d, err := s.Decide(ctx, r)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						charges = append(charges, r.Charge(&d))
					}
				default:
					c := charges[len(charges)-1]
					charges = charges[:len(charges)-1]
					if _, leases := a.(sluice.Concurrency); !leases {
						err = s.Settle(ctx, c, rnd.Int64N(3))
					} else {
						err = s.Release(ctx, c, time.Millisecond)
					}
					if err != nil && !errors.Is(err, sluice.ErrLeaseLost) {
						t.Fatal(err)
					}
				}
				slack = max(slack, 23*time.Millisecond+time.Since(begin))
				begin = time.Now()
				d, err := s.Decide(ctx, sluice.Request{Limit: limit, Key: r.Key, Peek: true})
				if err != nil {
					t.Fatal(err)
				}
				reply, err := conn.Do(ctx, "PTTL", name)
				if err != nil {
					t.Fatal(err)
				}
				millis, _ := reply.(int64)
				left := time.Duration(max(0, millis)) * time.Millisecond // -2: there is none
				if millis == -1 || left > d.ResetAfter+slack {
					t.Fatalf("PTTL is %d, of a state that is fresh in %v", millis, d.ResetAfter)
				}
				if passed := time.Since(begin); left+passed < d.ResetAfter {
					t.Fatalf("PTTL is %v, %v after the state was said to be fresh in %v", left, passed, d.ResetAfter)
				}
			}
		})
	}
}
