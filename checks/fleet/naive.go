package fleet

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// naive counts fixed windows locally and synchronises now and then, as many limiters do: each process
// admits while what it last read from Redis and what it has admitted since then stay below the limit.
// At each synchronisation it adds its part to the counter in Redis, and reads the sum.
type naive struct {
	redis rueidis.Client
	sync  time.Duration
	stop  chan struct{}
	ended sync.WaitGroup

	mu   sync.Mutex
	keys []naiveKey
}

type naiveKey struct {
	name   string
	count  int64
	length int64 // of a window, in nanoseconds
	window int64
	global int64 // as last read
	local  int64 // admitted and not sent yet
}

func newNaive(s *Spec) (*naive, error) {
	c, err := rueidis.NewClient(clientOptions(s.Route))
	if err != nil {
		return nil, err
	}
	n := &naive{redis: c, sync: s.Sync, stop: make(chan struct{})}
	for _, l := range s.Loads {
		n.keys = append(n.keys, naiveKey{name: l.Terms.Name + ":" + l.Key, count: l.Terms.Count, length: int64(l.Terms.Period)})
	}
	n.ended.Go(n.run)
	return n, nil
}

// Take implements Subject.
func (n *naive) Take(_ context.Context, load int) (bool, error) {
	window := time.Now().UnixNano()
	n.mu.Lock()
	defer n.mu.Unlock()
	k := &n.keys[load]
	window /= k.length
	if window != k.window {
		// What was not sent yet is lost, as with a counter that has expired.
		k.window, k.global, k.local = window, 0, 0
	}
	if k.global+k.local >= k.count {
		return false, nil
	}
	k.local++
	return true, nil
}

func (n *naive) run() {
	tick := time.NewTicker(n.sync)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
			n.synchronise()
		}
	}
}

// synchronise sends what was admitted, and reads the sums.
func (n *naive) synchronise() {
	type sent struct {
		key           int
		window, units int64
	}
	var all []sent
	var commands rueidis.Commands
	n.mu.Lock()
	for i := range n.keys {
		k := &n.keys[i]
		if k.window == 0 {
			continue
		}
		all = append(all, sent{i, k.window, k.local})
		name := k.name + ":" + strconv.FormatInt(k.window, 10)
		commands = append(
			commands,
			n.redis.B().Incrby().Key(name).Increment(k.local).Build(),
			n.redis.B().Pexpire().Key(name).Milliseconds(2*k.length/1e6).Build(),
		)
		k.global += k.local // until the sum is known
		k.local = 0
	}
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), n.sync)
	defer cancel()
	replies := n.redis.DoMulti(ctx, commands...)
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, s := range all {
		if sum, err := replies[2*i].AsInt64(); err == nil && n.keys[s.key].window == s.window {
			n.keys[s.key].global = sum
		}
	}
}

// Drain implements Subject.
func (n *naive) Drain(context.Context) error {
	n.synchronise()
	return nil
}

// Stats implements Subject.
func (n *naive) Stats(*Stats) {}

// Close implements Subject.
func (n *naive) Close() error {
	close(n.stop)
	n.ended.Wait()
	n.redis.Close()
	return nil
}
