package redis

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/ratetest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestTwoProcessesKeepOneRate paces the bytes of a key whose connections are in two processes, as two stores
// with clients of their own: together they keep to the rate within 2 %, each has its share, and
// a chunk costs one round trip.
func TestTwoProcessesKeepOneRate(t *testing.T) {
	server := redistest.Start(t)
	var stores [2]sluice.Store
	for i := range stores {
		stores[i] = adapters.Rueidis.Open(t, adapters.ToSocket(server), redisstore.Options{})
	}
	for _, rate := range []int64{1_000_000, 100_000_000, 1_000_000_000} {
		t.Run(strconv.FormatInt(rate, 10), func(t *testing.T) {
			ratetest.Within(t, 1, func(try int) float64 {
				sum, apart, calls := shareBandwidth(t, server, stores, rate, sluice.StringKey(fmt.Sprint(try)))
				if most := 2 * (float64(ratetest.Span()/bandwidth.ChunkTime) + 20); calls > most {
					t.Errorf("the server was called %.0f times, more than %.0f", calls, most)
				}
				if apart > 0.04 {
					t.Logf("try %d: the shares are %.2f %% apart", try, 100*apart)
					return min(sum, 0.97) // this try is not within the rate
				}
				return sum
			})
		})
	}
}

// shareBandwidth moves bytes of a key by two stores at once. It returns which part of the rate they
// moved after the first burst, how much more of it one moved than the other, and how many scripts ran.
func shareBandwidth(t *testing.T, server *redistest.Server, stores [2]sluice.Store, rate int64, key sluice.Key) (sum, apart, calls float64) {
	t.Helper()
	before := scripts(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const skip = 100 * time.Millisecond
	type moved struct {
		bytes float64
		err   error
	}
	began := time.Now()
	done := make(chan moved, len(stores))
	for _, s := range stores {
		l, err := bandwidth.NewLimiter(bandwidth.Options{Store: s, Name: "bandwidth", Rate: sluice.PerSecond(rate)})
		if err != nil {
			t.Fatal(err)
		}
		w := bandwidth.NewWriter(ctx, io.Discard, l.Flow(key))
		go func() {
			p, n := make([]byte, 32<<10), 0
			var late time.Time
			for {
				some, err := w.Write(p)
				if err != nil {
					done <- moved{err: err}
					return
				}
				switch now := time.Since(began); {
				case now < skip:
				case late.IsZero():
					late = time.Now()
				default:
					n += some
				}
				if time.Since(began) >= ratetest.Span()+skip {
					done <- moved{bytes: float64(n) / (float64(rate) * time.Since(late).Seconds()), err: w.Close()}
					return
				}
			}
		}()
	}
	a, b := <-done, <-done
	if a.err != nil || b.err != nil {
		t.Fatal(a.err, b.err)
	}
	return a.bytes + b.bytes, math.Abs(a.bytes - b.bytes), scripts(t, server) - before
}

// scripts returns how many scripts the server has run.
func scripts(t *testing.T, server *redistest.Server) (n float64) {
	t.Helper()
	stats, err := server.CommandStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range stats {
		if strings.HasPrefix(name, "eval") {
			n += float64(s.Calls)
		}
	}
	return n
}
