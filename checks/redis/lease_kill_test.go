package redis

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

const (
	killTTL   = 2 * time.Second
	killUnits = 3
	// killPatience is how long the test waits for what must come.
	killPatience = 20 * time.Second
)

// flights is an edge with a rule for what is in flight.
type flights struct {
	store *redisstore.Store
	rules *policy.Policy
	gate  *gate.Gate
}

func newFlights(store *redisstore.Store) (*flights, error) {
	limit, err := sluice.NewLimit("", sluice.Concurrency{Max: killUnits, Queue: 8, TTL: killTTL, Latency: 100 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	f := &flights{store: store}
	f.rules, err = policy.New(policy.Options{
		OnStoreError: sluice.FallbackDeny,
		Rules:        []policy.Rule{{Name: "flight", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{limit}, MaxWait: killPatience}},
	})
	if err != nil {
		return nil, err
	}
	f.gate, err = gate.New(store, gate.Options{})
	return f, err
}

// enter requests a lease, and waits for it.
func (f *flights) enter(ctx context.Context) (*gate.Admission, error) {
	v := f.rules.Decide(ctx, f.store, &policy.Attributes{Path: "/"})
	pass, err := f.gate.Enter(ctx, &v)
	return pass, errors.Join(v.Err, err)
}

// free returns how many units are free, with the room of the queue.
func (f *flights) free(ctx context.Context) (int64, error) {
	v := f.rules.Peek(ctx, f.store, &policy.Attributes{Path: "/"})
	if v.Err != nil || len(v.Results) != 1 {
		return 0, fmt.Errorf("%v: %w", v.Results, v.Err)
	}
	return v.Results[0].Decision.Remaining, nil
}

// holder is a process that takes all leases, prints their number, and holds them while it lives.
func holder() error {
	store, err := rueidisstore.New(rueidis.ClientOption{
		InitAddress: []string{os.Getenv("SLUICE_REDIS")}, DisableRetry: true,
	}, redisstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	f, err := newFlights(store)
	if err != nil {
		return err
	}
	for range killUnits {
		if _, err := f.enter(context.Background()); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(killUnits); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
	}
	return nil
}

// TestAKilledProcessLosesItsLeases: its leases are renewed while it lives, however long that is, and lost
// within their time to live when it is killed. Then the requests that are queued elsewhere run.
func TestAKilledProcessLosesItsLeases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := adapters.Rueidis.Open(t, adapters.ToSocket(server), redisstore.Options{})
	f, err := newFlights(store)
	if err != nil {
		t.Fatal(err)
	}
	child := startChild(t, "holder", "SLUICE_REDIS="+server.Addr())
	var held int64
	if err := child.out.Decode(&held); err != nil || held != killUnits {
		t.Fatalf("the child holds %d: %v", held, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), killPatience)
	defer cancel()
	type entered struct {
		pass *gate.Admission
		err  error
		at   time.Time
	}
	queued := make(chan entered, 1)
	go func() {
		pass, err := f.enter(ctx)
		queued <- entered{pass, err, time.Now()}
	}()
	select {
	case e := <-queued:
		t.Fatalf("a queued request ran while all leases were held: %v", e.err)
	case <-time.After(2 * killTTL): // only renewals keep the leases so long
	}
	killed := time.Now()
	child.killed = true
	if err := child.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	e := <-queued
	if e.err != nil {
		t.Fatal(e.err)
	}
	// The latest renewal was no more than half a time to live ago; then the next request finds the unit free.
	if after := e.at.Sub(killed); after < killTTL/4 || after > killTTL+5*time.Second {
		t.Errorf("the queued request ran %v after the kill", after)
	}
	e.pass.Leave(ctx, policy.Outcome{Status: 200})
	again := time.NewTicker(50 * time.Millisecond) // the child's leases end one after the other
	defer again.Stop()
	for {
		n, err := f.free(ctx)
		if err != nil || n > killUnits+8 {
			t.Fatalf("%d units are free: %v", n, err)
		}
		if n == killUnits+8 {
			return
		}
		<-again.C
	}
}
