package decisions

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestAbandonedHoldsLeaveNothing: nobody settles 20,000 holds of many keys and of one, and many more by night. After their time the server has no
// holds, and no key whose limit would be full without them. All units are back.
func TestAbandonedHoldsLeaveNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := redistest.Start(t)
	store, err := redisstore.New(adapters.Rueidis.Dial(t, adapters.ToSocket(server)), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const each = 500
	most := int64(redistest.Times(t, 20_000))
	second := sluice.MustLimit("second", sluice.FixedWindow{Rate: sluice.PerSecond(10), Opened: true})
	day := sluice.MustLimit("day", sluice.FixedWindow{Rate: sluice.PerDay(most), Opened: true})
	one := sluice.StringKey("one")
	rs, out := make([]sluice.Request, each), make([]sluice.Decision, each)
	for n := 0; n < int(most); n += each {
		for i := range rs {
			rs[i] = sluice.Request{Limit: day, Key: one, Cost: 1, Hold: time.Second}
			if i%2 == 0 {
				rs[i].Limit, rs[i].Key = second, sluice.StringKey(fmt.Sprint(n+i))
			}
		}
		if err := store.DecideAll(ctx, rs, out); err != nil {
			t.Fatal(err)
		}
	}
	look := sluice.Request{Limit: day, Key: one, Hold: time.Second, Peek: true}
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for calls := 0; ; <-pause.C {
		calls++
		d, err := store.Decide(ctx, look)
		if err != nil {
			t.Fatalf("%d calls: %v", calls, err)
		}
		if d.Remaining == most {
			break
		}
	}
	if n, err := server.Int(ctx, "EXISTS", "sluice{one}hfixed:day"); n != 0 || err != nil {
		t.Errorf("the holds of one key are still there: %d, %v", n, err)
	}
	if err := store.Reset(ctx, day, one); err != nil {
		t.Fatal(err)
	}
	for ; ; <-pause.C {
		n, err := server.Int(ctx, "DBSIZE")
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}
