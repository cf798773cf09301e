package hybrid

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/granttest"
)

// counter is a shared store whose calls take a time. It counts the grants of units.
type counter struct {
	*granttest.Server
	trip           time.Duration
	grants, units  int64
	empty, returns int64
	answered       time.Time
}

func (c *counter) Grant(ctx context.Context, holder uint64, claims []driver.Claim, out []driver.Grant) {
	pass(c.trip)
	c.Server.Grant(ctx, holder, claims, out)
	c.answered = time.Now()
	for i, g := range out {
		c.returns += claims[i].Returned
		if g.Units > 0 {
			c.grants++
			c.units += g.Units
		} else {
			c.empty++
		}
	}
}

// learner is a process that decides requests for a key on granted units.
type learner struct {
	*testing.T
	shared *counter
	store  *Store
	limit  *sluice.Limit
	key    sluice.Key
}

// learn runs a test with a process that has units of a bucket in hand, a day after its start.
func learn(t *testing.T, f func(l *learner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		limit, err := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerHour(1000)}).WithHybrid(sluice.Hybrid{Stranded: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		shared := &counter{Server: granttest.New(granttest.Options{Clock: func() int64 { return time.Now().UnixMicro() }}), trip: 3 * time.Millisecond}
		store, err := New(shared, Options{Holder: 7})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		pass(24 * time.Hour)
		l := &learner{t, shared, store, limit, sluice.StringKey("k")}
		for range 50 {
			l.take(1, 0)
			pass(5 * time.Millisecond)
		}
		f(l)
	})
}

func (l *learner) take(cost, floor int64) sluice.Decision {
	l.Helper()
	d, err := l.store.Decide(l.Context(), sluice.Request{Limit: l.limit, Key: l.key, Cost: cost, Floor: floor})
	if err != nil {
		l.Fatal(err)
	}
	return d
}

// inHand returns the units in hand, and what was free as last answered.
func (l *learner) inHand() (left, free int64) {
	l.Helper()
	e := l.store.table.lookup(l.limit, l.key)
	if e == nil {
		l.Fatal("the process has no entry of the key")
	}
	e.lock()
	defer e.unlock()
	if e.hand.left == 0 || e.open != nil {
		l.Fatalf("%d units in hand, a claim on its way: %v", e.hand.left, e.open != nil)
	}
	return e.hand.left, e.seen.free
}

// TestLocalChargesHaveTheServersTime: the receipt of a local charge has the time at which the shared store would have
// charged it, whatever the age of the process. It is at most a round trip early.
func TestLocalChargesHaveTheServersTime(t *testing.T) {
	learn(t, func(l *learner) {
		d, ok := l.store.DecideLocally(sluice.Request{Limit: l.limit, Key: l.key, Cost: 1})
		if !ok || !d.Allowed {
			t.Fatalf("not decided locally: %+v", d)
		}
		at, now := d.Receipt.At^localBit, time.Now().UnixMicro()
		if early := now - at; early < 0 || early > l.shared.trip.Microseconds() {
			t.Errorf("the charge is dated %dµs before the server's time", early)
		}
	})
}

// TestClaimsReturnWhatTheyNeed: a request that passes only with the units in hand returns them with its claim. A request for
// exactly what is free leaves them in hand.
func TestClaimsReturnWhatTheyNeed(t *testing.T) {
	learn(t, func(l *learner) {
		left, free := l.inHand()
		if d := l.take(left+1, free-left); !d.Allowed {
			t.Errorf("with %d units in hand and %d free, a request for %d above %d: %+v", left, free, left+1, free-left, d)
		}
		if l.shared.returns == 0 {
			t.Error("nothing was returned")
		}
	})
	learn(t, func(l *learner) {
		_, free := l.inHand()
		before := l.shared.returns
		if d := l.take(free, 0); !d.Allowed || l.shared.returns != before {
			t.Errorf("a request for the %d free units: %+v, %d units were returned", free, d, l.shared.returns-before)
		}
	})
}

// TestMeanGrantIsOfGrantedClaims: the mean size is of the claims that were granted units.
func TestMeanGrantIsOfGrantedClaims(t *testing.T) {
	learn(t, func(l *learner) {
		pass(time.Second) // the units in hand are returned, by a claim that is granted none
		st := l.store.Stats()[0]
		if want := float64(l.shared.units) / float64(l.shared.grants); st.GrantSize != want || l.shared.empty == 0 {
			t.Errorf("%d units in %d grants, %d claims without: the mean is %v", l.shared.units, l.shared.grants, l.shared.empty, st.GrantSize)
		}
		if st.SyncTime != l.shared.trip {
			t.Errorf("a synchronisation takes %v, and %v is reported", l.shared.trip, st.SyncTime)
		}
		if !st.LastSync.Equal(l.shared.answered) {
			t.Errorf("the last synchronisation was at %v, and %v is reported", l.shared.answered, st.LastSync)
		}
	})
}

// TestExcessOfAKey: another process takes all of the limit at once, beside the 50 units of this one. The excess is these 50
// units, whatever is in hand. Units in hand are not returned for it.
func TestExcessOfAKey(t *testing.T) {
	learn(t, func(l *learner) {
		if _, err := l.shared.Decide(t.Context(), sluice.Request{Limit: l.limit, Key: l.key, Cost: 1000, Debit: true}); err != nil {
			t.Fatal(err)
		}
		before := l.shared.returns
		for range 9 {
			if d := l.take(1, 0); !d.Allowed {
				t.Fatalf("with units in hand: %+v", d)
			}
			pass(25 * time.Millisecond)
		}
		if got := l.store.Stats()[0].Excess; got < 49 || got > 59 { // some of the nine may be reported
			t.Errorf("the excess is %d units", got)
		}
		if l.shared.returns != before {
			t.Errorf("%d units were returned", l.shared.returns-before)
		}
	})
}
