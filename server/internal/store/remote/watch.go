package remote

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

// Times for watching the store.
const (
	// The pause between attempts to connect doubles, from leastPause up to mostPause.
	leastPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	// idleInterval is how often an idle store is probed. downInterval is how often a store that
	// does not decide is probed.
	idleInterval = time.Second
	downInterval = 200 * time.Millisecond
	// mendPatience is how long a call may take that opens a lost connection again. The deadline of a decision may be
	// too short for that; if it is longer, it counts: a call that is late ends the decisions of its connection.
	mendPatience = 2 * time.Second
)

// watch connects, and probes an idle store, until ctx ends. It connects again if the store refuses the
// credentials, because secrets and certificates may have changed. See docs/adr/0011.
func (r *Store) watch(ctx context.Context) {
	defer close(r.watched)
	pause := leastPause
	answered := uint64(0)
	var renewed time.Time
	for {
		wait := idleInterval
		if r.health.trouble() != nil {
			wait = downInterval
		}
		connected := r.remote.to.Load() != nil
		if !connected {
			wait = pause
		}
		// Servers that lost the same store must not come back at the same moment.
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return
		}
		if !connected {
			if err := r.reconnect(ctx); err != nil {
				pause = min(2*pause, mostPause)
				if ctx.Err() == nil {
					r.remote.miss(err)
					r.health.worsen(unconnected, err)
				}
				continue
			}
			r.health.mend(unconnected)
		}
		if st := r.guard.Stats(); st.State == guard.StateClosed && st.Answered != answered {
			answered = st.Answered
			r.health.mend(unanswered)
			continue
		}
		if hopeless(r.probe(ctx)) && time.Since(renewed) > mostPause {
			renewed = time.Now()
			_ = r.reconnect(ctx) // the connection stays as it is
		}
	}
}

// reconnect connects while decisions go on.
func (r *Store) reconnect(ctx context.Context) error {
	_, err := r.connect(ctx, connectPatience)
	if err != nil && ctx.Err() == nil {
		r.logger.Debug("the store cannot be reached", "error", err)
	}
	return err
}

// probed is the request of a probe; it charges nothing.
var probed = sluice.Request{
	Limit: sluice.MustLimit("sluice-probe", sluice.TokenBucket{Rate: sluice.PerSecond(1)}),
	Key:   sluice.StringKey("sluice probe"), Cost: 1, Peek: true,
}

// probe returns why the store does not answer, nil if it does. If nodes of a cluster fail, it
// probes all of them.
func (r *Store) probe(ctx context.Context) error {
	failing := r.guard.Failing()
	if len(failing) == 0 {
		return r.probeWith(ctx, probed)
	}
	errs := make([]error, len(failing))
	var all sync.WaitGroup
	for i, shard := range failing {
		all.Go(func() { errs[i] = r.probeShard(ctx, shard) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// mostProbeKeys bounds the keys that probeShard tries: several for each node of the largest cluster.
const mostProbeKeys = 1 << 14

// probeShard probes a node that fails. It opens a lost connection again first.
func (r *Store) probeShard(ctx context.Context, shard int) error {
	q := probed
	for i := range mostProbeKeys {
		if r.remote.Shard(q.Key) == shard {
			break
		}
		q.Key = sluice.StringKey("sluice probe " + strconv.Itoa(i))
	}
	patient, cancel := context.WithTimeout(ctx, max(mendPatience, r.file.Deadline))
	_, err := r.remote.to.Load().Decide(patient, q)
	cancel()
	if err != nil {
		return err
	}
	return r.probeWith(ctx, q)
}

// probeWith probes the store with a request.
func (r *Store) probeWith(ctx context.Context, q sluice.Request) error {
	before := r.guard.Stats().Failed
	d, err := r.guard.Decide(ctx, q)
	switch st := r.guard.Stats(); {
	case err == nil && !d.Degraded:
		r.health.mend(unanswered)
	case ctx.Err() == nil && st.Failed != before:
		r.health.worsen(unanswered, st.Last)
		return st.Last
	}
	return nil
}

// sleep waits, and reports whether the context is still valid afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
