package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// together is a client that holds up what undoes a charge until so many do.
type together struct {
	redisstore.Client
	mu    sync.Mutex
	await int
	all   chan struct{}
}

// undoes is the last argument of the call that undoes a charge.
const undoes = "\x04\x00"

func (c *together) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	if args[len(args)-1] == undoes {
		c.mu.Lock()
		if c.await--; c.await == 0 {
			close(c.all)
		}
		c.mu.Unlock()
		select {
		case <-c.all:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return c.Client.EvalSHA(ctx, sha, keys, args)
}

// TestKeysAreUndoneAtOnce: one after the other, many would not be undone by the deadline.
func TestKeysAreUndoneAtOnce(t *testing.T) {
	t.Parallel()
	const limits = 20
	plain := adapters.Rueidis.Dial(t, adapters.ToSocket(redistest.Start(t)))
	c := &together{Client: plain, await: limits, all: make(chan struct{})}
	s, err := redisstore.New(c, redisstore.Options{Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	full := sluice.Request{Limit: sluice.MustLimit("full", sluice.TokenBucket{Rate: sluice.PerDay(1)}), Key: sluice.StringKey("full"), Cost: 1}
	if d, err := s.Decide(t.Context(), full); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	rs := []sluice.Request{full}
	for i := range limits {
		l := sluice.MustLimit(fmt.Sprint("limit ", i), sluice.TokenBucket{Rate: sluice.PerDay(10)})
		for range 2 {
			rs = append(rs, sluice.Request{Limit: l, Key: sluice.StringKey("key"), Cost: 2})
		}
	}
	out := make([]sluice.Decision, len(rs))
	if err := s.DecideAll(redistest.Within(t, redistest.Soon), rs, out); err != nil || out[0].Allowed {
		t.Fatal(out[0], err)
	}
	for _, r := range rs[1:] {
		r.Peek = true
		if d, err := s.Decide(t.Context(), r); err != nil || d.Remaining != 10 {
			t.Errorf("%v: %+v, %v; want all of it", r.Limit.Name(), d, err)
		}
	}
}
