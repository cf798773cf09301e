package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// TestWindowsExpireWhenFresh: the server forgets the states of windows, cells and
// counters when they equal fresh ones, to the millisecond after, and not before.
func TestWindowsExpireWhenFresh(t *testing.T) {
	server := redistest.Start(t)
	client, err := rueidisstore.NewClient(connect(t, server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	rate := sluice.Per(20, 10_007*time.Millisecond)
	for i, a := range []sluice.Algorithm{
		sluice.FixedWindow{Rate: rate},
		sluice.FixedWindow{Rate: rate, Opened: true},
		sluice.FixedWindow{Rate: rate, Calendar: sluice.CalendarMonth},
		sluice.SlidingWindow{Rate: rate},
		sluice.SlidingCounter{Rate: rate},
		sluice.SlidingCounter{Rate: sluice.Per(20, 100*365*24*time.Hour)},
	} {
		prefix := fmt.Sprintf("expiry-%d", i)
		s, err := redisstore.New(client, redisstore.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		r := sluice.Request{Limit: sluice.MustLimit("", a), Key: sluice.StringKey("k"), Cost: 1}
		for _, floor := range []int64{0, 1, 2} { // the shortest script decides the first only
			r.Floor = floor
			d, err := s.Decide(t.Context(), r)
			if err != nil || !d.Allowed {
				t.Fatalf("%v: %+v, %v", a, d, err)
			}
			wantExpiry(t, server, prefix, d.Receipt.At+d.ResetAfter.Microseconds())
		}
		d, err := s.Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), r.Charge(&d), 5); err != nil {
			t.Fatal(err)
		}
		wantExpiry(t, server, prefix, d.Receipt.At+d.ResetAfter.Microseconds())
	}
}

// wantExpiry checks that the one key under a prefix expires at a time in microseconds.
func wantExpiry(t *testing.T, server *redistest.Server, prefix string, at int64) {
	t.Helper()
	const expiry = `local time = redis.call('TIME')
local key = redis.call('KEYS', ARGV[1] .. '*')[1]
return time[1] * 1000 + math.floor(time[2] / 1000) + redis.call('PTTL', key)`
	millis, err := server.Int(t.Context(), "EVAL", expiry, "0", prefix)
	if err != nil {
		t.Fatal(err)
	}
	// The script may look at the time a millisecond after it began.
	if late := at + 3000; 1000*millis < at || 1000*millis > late {
		t.Errorf("%s expires %d µs after it is fresh", prefix, 1000*millis-at)
	}
}
