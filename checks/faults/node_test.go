package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

const (
	nodeRate = 2000 // calls a second
	nodeKeys = 600
	nodeHang = 3 * time.Second
	// If the load's clock is later than that, healthy masters are late, too, and the test is
	// repeated.
	nodeLate = 20 * time.Millisecond
	// nodeShare of the requests for keys of healthy masters are decided by the store.
	nodeShare = 0.99
)

// nodeDeadline is longer than a busy machine delays a call: its lateness must not open the breakers of healthy masters. A machine
// that does nothing else holds the default deadline, at the first try.
var nodeDeadline, nodeTries = func() (deadline time.Duration, tries int) {
	if isStrict() {
		return loadDeadline, 1
	}
	return 5 * loadDeadline, 3
}()

// nodeLimit never runs out here.
var nodeLimit = sluice.MustLimit("node", sluice.TokenBucket{Rate: sluice.PerDay(1000), Burst: 1_000_000})

// A nodeCall is a call of a nodeLoad: a request for one key, or a batch for the key and the
// key of everybody, which the hung master has.
type nodeCall struct {
	key      int
	batch    bool
	at, took time.Duration // since the load began; the time of the call
	degraded bool          // the decision about the key
	err      error
}

// A nodeLoad calls a store for many keys of a cluster, whatever becomes of the calls.
type nodeLoad struct {
	*testing.T
	store  sluice.Store
	keys   []sluice.Key
	common sluice.Key
	began  time.Time
	calls  []nodeCall
	count  atomic.Int64
	late   time.Duration // the most by which the load's clock was late
	stop   chan struct{}
	ended  chan struct{}
}

func startNodeLoad(t *testing.T, s sluice.Store, common sluice.Key) *nodeLoad {
	t.Helper()
	l := &nodeLoad{
		T: t, store: s, common: common, began: time.Now(),
		calls: make([]nodeCall, 60*nodeRate), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	for i := range nodeKeys {
		l.keys = append(l.keys, sluice.StringKey(fmt.Sprint("node ", i)))
	}
	go l.run()
	return l
}

func (l *nodeLoad) run() {
	defer close(l.ended)
	var calls sync.WaitGroup
	defer calls.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-tick.C:
		case <-l.stop:
			return
		}
		l.late = max(l.late, time.Since(last))
		due := int64(time.Since(l.began).Seconds() * nodeRate)
		for i := l.count.Load(); i < due && int(i) < len(l.calls); i = l.count.Add(1) {
			calls.Go(func() { l.call(int(i)) })
		}
	}
}

func (l *nodeLoad) call(i int) {
	c := &l.calls[i]
	c.key, c.batch = i/4%nodeKeys, i%4 == 3
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Soon)
	defer cancel()
	began := time.Now()
	r := sluice.Request{Limit: nodeLimit, Key: l.keys[c.key], Cost: 1}
	var out [2]sluice.Decision
	if c.batch {
		c.err = l.store.DecideAll(ctx, []sluice.Request{r, {Limit: nodeLimit, Key: l.common, Cost: 1}}, out[:])
	} else {
		out[0], c.err = l.store.Decide(ctx, r)
	}
	c.at, c.took, c.degraded = began.Sub(l.began), time.Since(began), out[0].Degraded
}

// await returns when so many calls have begun as begin in a time.
func (l *nodeLoad) await(d time.Duration) {
	l.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for due := l.count.Load() + int64(d.Seconds()*nodeRate); l.count.Load() < due; {
		select {
		case <-tick.C:
		case <-l.Context().Done():
			l.Fatal("the test has ended")
		}
	}
}

func (l *nodeLoad) end() []nodeCall {
	l.Helper()
	close(l.stop)
	select {
	case <-l.ended:
	case <-time.After(redistest.Soon):
		l.Fatal("calls hang")
	}
	return l.calls[:l.count.Load()]
}

// ownersOf returns the masters of keys, in a cluster whose slots have not moved.
func ownersOf(t *testing.T, cluster *redistest.Cluster, keys []sluice.Key) []*redistest.Server {
	t.Helper()
	ctx := redistest.Within(t, redistest.Soon)
	masters, err := cluster.Masters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := masters[0].Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	owners := make([]*redistest.Server, len(keys))
	for i, k := range keys {
		slot, err := conn.Do(ctx, "CLUSTER", "KEYSLOT", slotKey(k))
		if err != nil {
			t.Fatal(err)
		}
		owners[i] = masters[((int(slot.(int64))+1)*len(masters)-1)/redistest.Slots]
	}
	return owners
}

// TestHungMaster stops one master of three. The store decides about the keys of the other
// masters throughout, and from the first deadline on also in batches with a key of the hung
// master. It decides about the keys of the hung master soon after it goes on.
func TestHungMaster(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 0, redistest.Config("cluster-require-full-coverage no"))
		g, err := guard.New(guard.Options{
			Store:    a.Open(t, adapters.ToCluster(cluster), redisstore.Options{}),
			Deadline: nodeDeadline, Default: sluice.FallbackAllow, Inline: a.Name == "rueidis", // as in the server
		})
		if err != nil {
			t.Fatal(err)
		}
		repeatHang(t, cluster, g, func() bool { return g.State() == guard.StateClosed })
		t.Logf("%+v", g.Stats())
	})
}

// TestHungMasterUnguarded does so without a guard, through rueidis, whose queue to each server has
// room for so many calls: it gives up calls to the hung master when their contexts end, and they do
// not delay other calls.
func TestHungMasterUnguarded(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, redistest.Config("cluster-require-full-coverage no"))
	s := &impatient{Store: adapters.Rueidis.Open(t, adapters.ToCluster(cluster), redisstore.Options{})}
	repeatHang(t, cluster, s, func() bool { return true })
}

// impatient is a store whose calls have a deadline. After an error, a decision is Degraded.
type impatient struct{ sluice.Store }

func (s *impatient) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeDeadline)
	defer cancel()
	d, err := s.Store.Decide(ctx, r)
	d.Degraded = err != nil
	return d, nil
}

// DecideAll decides the first request only: without a guard, a batch fails as a whole.
func (s *impatient) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) (err error) {
	out[0], err = s.Decide(ctx, rs[0])
	return err
}

// repeatHang stops a master of a cluster under load. It does that again if the machine was too busy.
// calm reports whether the store works.
func repeatHang(t *testing.T, cluster *redistest.Cluster, s sluice.Store, calm func() bool) {
	t.Helper()
	for try := 1; ; try++ {
		l := startNodeLoad(t, s, sluice.StringKey("everybody"))
		problems := l.hang(cluster, calm)
		if len(problems) > 0 && l.late > nodeLate && try < nodeTries {
			t.Logf("the machine was busy, by %v, and the test is repeated: %q", l.late, problems)
			continue
		}
		for _, p := range problems {
			t.Errorf("while a master hangs: %s", p)
		}
		t.Logf("late by %v at most", l.late)
		return
	}
}

// hang stops a master for a while, and returns what was wrong.
func (l *nodeLoad) hang(cluster *redistest.Cluster, calm func() bool) []string {
	l.Helper()
	owners := ownersOf(l.T, cluster, append(slices.Clone(l.keys), l.common))
	hung := owners[nodeKeys]
	sick := make([]bool, nodeKeys)
	for i := range sick {
		sick[i] = owners[i] == hung
	}
	l.await(500 * time.Millisecond)
	for range 100 { // it may have been slow to begin with
		if calm() {
			break
		}
		l.await(50 * time.Millisecond)
	}
	from := time.Since(l.began)
	if err := hung.Pause(); err != nil {
		l.Fatal(err)
	}
	l.await(nodeHang)
	to := time.Since(l.began)
	if err := hung.Resume(); err != nil {
		l.Fatal(err)
	}
	resumed := time.Since(l.began)
	l.await(1500 * time.Millisecond)
	return l.check(l.end(), sick, from, to, resumed)
}

// check holds the calls between two times to the promise about healthy keys, and the calls
// after a third one to the recovery of the others. It returns what was wrong.
func (l *nodeLoad) check(calls []nodeCall, sick []bool, from, to, resumed time.Duration) (problems []string) {
	l.Helper()
	var took []time.Duration
	var all, stored [2]int // of single requests, and of batches
	first, longest := time.Duration(-1), time.Duration(0)
	for i := range calls {
		c := &calls[i]
		if c.err != nil {
			l.Fatalf("a decision failed: %v", c.err)
		}
		longest = max(longest, c.took)
		if sick[c.key] {
			if end := c.at + c.took; c.at > resumed && !c.degraded && (first < 0 || end < first) {
				first = end
			}
			continue
		}
		if c.at < from || c.at > to {
			continue
		}
		kind := 0
		if c.batch {
			kind = 1
			if c.at < from+nodeDeadline+hops*l.late {
				continue // the breaker of the hung master has not opened yet
			}
		}
		took = append(took, c.took)
		all[kind]++
		if !c.degraded {
			stored[kind]++
		}
	}
	for kind, name := range []string{"requests", "batches with a key of the hung master"} {
		share := float64(stored[kind]) / float64(all[kind])
		if share < nodeShare {
			problems = append(problems, fmt.Sprintf("the store decided %.2f %% of the %d %s for keys of healthy masters, want %v %%", 100*share, all[kind], name, 100*nodeShare))
		}
		l.Logf("%s: %.2f %% of %d", name, 100*share, all[kind])
	}
	if want := nodeDeadline + 10*time.Millisecond + hops*l.late; longest > want {
		problems = append(problems, fmt.Sprintf("a call took %v, want %v", longest, want))
	}
	slices.Sort(took)
	if p99, want := took[len(took)*99/100], loadDeadline+hops*l.late; p99 > want {
		problems = append(problems, fmt.Sprintf("99 of 100 answers about keys of healthy masters came within %v, want %v", p99, want))
	}
	if want := resumed + recoverWithin + hops*l.late; first < 0 || first > want {
		problems = append(problems, fmt.Sprintf("the store decided about keys of the hung master again after %v, want %v", first-resumed, want-resumed))
	}
	l.Logf("the hung master decided again after %v", first-resumed)
	return problems
}
