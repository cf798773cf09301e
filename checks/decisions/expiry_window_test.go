package decisions

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestWindowsExpireWhenFresh: the server forgets the states of windows, cells and
// counters some 20 milliseconds after they equal fresh ones, and not before.
func TestWindowsExpireWhenFresh(t *testing.T) {
	server := redistest.Start(t)
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(server))
	rate := sluice.Per(100, 10_007*time.Millisecond)
	for i, a := range []sluice.Algorithm{
		sluice.FixedWindow{Rate: rate},
		sluice.FixedWindow{Rate: rate, Opened: true},
		sluice.FixedWindow{Rate: rate, Calendar: sluice.CalendarMonth},
		sluice.SlidingWindow{Rate: rate},
		sluice.SlidingCounter{Rate: rate},
		sluice.SlidingCounter{Rate: sluice.Per(100, 100*365*24*time.Hour)},
	} {
		prefix := fmt.Sprintf("expiry-%d", i)
		s, err := redisstore.New(client, redisstore.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		r := sluice.Request{Limit: sluice.MustLimit("", a), Key: sluice.StringKey("k"), Cost: 1}
		for _, floor := range []int64{0, 0, 1, 0} { // the shortest scripts decide all but the third
			r.Floor = floor
			wantExpiry(t, server, prefix, func() int64 {
				d, err := s.Decide(t.Context(), r)
				if err != nil || !d.Allowed {
					t.Fatalf("%v: a fresh state should allow: %+v, %v", a, d, err)
				}
				return d.Receipt.At + d.ResetAfter.Microseconds()
			})
		}
		wantExpiry(t, server, prefix, func() int64 {
			d, err := s.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Settle(t.Context(), r.Charge(&d), 2); err != nil {
				t.Fatal(err)
			}
			return d.Receipt.At + d.ResetAfter.Microseconds()
		})
		if s, err = redisstore.New(client, redisstore.Options{Prefix: prefix + "-batch"}); err != nil {
			t.Fatal(err)
		}
		rs, ds := []sluice.Request{r, r}, make([]sluice.Decision, 2)
		rs[1].Key = sluice.StringKey("l")
		for _, floor := range []int64{0, 0, 1, 0} {
			rs[0].Floor, rs[1].Floor = floor, floor
			wantExpiry(t, server, prefix+"-batch", func() int64 {
				if err := s.DecideAll(t.Context(), rs, ds); err != nil || !ds[0].Allowed {
					t.Fatalf("%v: a batch on fresh states should be allowed: %+v, %v", a, ds, err)
				}
				return ds[0].Receipt.At + ds[0].ResetAfter.Microseconds()
			})
		}
	}
}

// wantExpiry checks that the one key under a prefix expires when decide says that it
// is fresh, in microseconds, and up to 23 ms. A server that pauses between the beginning
// of a script and its look at the time takes as much from the 20 ms that are there for it.
func wantExpiry(t *testing.T, server *redistest.Server, prefix string, decide func() int64) {
	t.Helper()
	const expiry = `local time = redis.call('TIME')
local key = redis.call('KEYS', ARGV[1] .. '*')[1]
return time[1] * 1000 + math.floor(time[2] / 1000) + redis.call('PTTL', key)`
	var late []int64
	for range 5 {
		at := decide()
		millis, err := server.Int(t.Context(), "EVAL", expiry, "0", prefix)
		if err != nil {
			t.Fatal(err)
		}
		by := 1000*millis - at
		if by >= 0 && by <= 23_000 {
			return
		}
		late = append(late, by)
	}
	t.Errorf("%s expires %v µs after it is fresh", prefix, late)
}
