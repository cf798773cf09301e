package overredis

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// A load is what the callers do at once. Each sends a request for a random key, and when it has the
// result, the next request.
type load struct {
	limiter peers.RedisLimiter
	keys    []string
	callers []caller
}

// caller is one goroutine's part. It keeps its memory from turn to turn.
type caller struct {
	draw  *rand.Rand
	tally tally
	took  fleet.Latencies
}

// tally counts results.
type tally struct {
	decided int // results without an error
	denied  int // results that were denials
	errors  int
	err     error // the first one
}

func (t *tally) add(o tally) {
	t.decided += o.decided
	t.denied += o.denied
	t.errors += o.errors
	if t.err == nil {
		t.err = o.err
	}
}

// keysOf returns the first n keys of a subject. No two subjects share a key, because some add no prefix.
func keysOf(subject, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = figures.Key(byte('a'+subject), i)
	}
	return all
}

func newLoad(l peers.RedisLimiter, keys []string, callers int) *load {
	all := make([]caller, callers)
	for i := range all {
		all[i].draw = rand.New(rand.NewPCG(1, uint64(i))) // the same draws in every run
	}
	return &load{l, keys, all}
}

// outcome is what one turn found.
type outcome struct {
	tally
	took     time.Duration
	p50, p99 time.Duration // over all results
	server   usage         // what the server spent
}

// turn lets all callers warm up for a while that does not count, and then work for the given time. It
// reads what the server spent before and after that time, while no caller works.
func (l *load) turn(ctx context.Context, warmUp, length time.Duration, read func() (usage, error)) (outcome, error) {
	var warm, done sync.WaitGroup
	warm.Add(len(l.callers))
	release := make(chan time.Time)
	begun := time.Now()
	for i := range l.callers {
		c := &l.callers[i]
		done.Go(func() {
			l.work(ctx, c, begun, begun.Add(warmUp))
			c.tally = tally{}
			c.took.Reset()
			warm.Done()
			start := <-release
			l.work(ctx, c, start, start.Add(length))
		})
	}
	warm.Wait()
	before, err := read()
	start := time.Now()
	if err != nil {
		length = 0
	}
	for range l.callers {
		release <- start
	}
	done.Wait()
	var o outcome
	o.took = time.Since(start)
	if err != nil {
		return o, err
	}
	after, err := read()
	if err != nil {
		return o, err
	}
	o.server = after.since(before)
	var all fleet.Latencies
	for i := range l.callers {
		o.add(l.callers[i].tally)
		all.Merge(&l.callers[i].took)
	}
	o.p50, o.p99 = all.Quantile(0.5), all.Quantile(0.99)
	return o, ctx.Err()
}

// work sends requests until the end. The end of one call is the beginning of the next, so that each call
// reads the clock once.
func (l *load) work(ctx context.Context, c *caller, now, end time.Time) {
	for now.Before(end) && ctx.Err() == nil {
		key := l.keys[c.draw.IntN(len(l.keys))]
		admitted, err := l.limiter.Take(context.Background(), key)
		then := time.Now()
		c.took.Add(then.Sub(now))
		now = then
		switch {
		case err != nil:
			c.tally.errors++
			if c.tally.err == nil {
				c.tally.err = err
			}
			continue
		case !admitted:
			c.tally.denied++
		}
		c.tally.decided++
	}
}

// usage is what a server has spent.
type usage struct {
	// process is the processor time of the whole process: used_cpu_user and used_cpu_sys of INFO cpu.
	process time.Duration

	// scripts is the time in evalsha and eval, from INFO commandstats. It includes the commands that
	// the scripts call, but not the time to read the call and to send the reply.
	scripts time.Duration
	calls   int64 // of scripts
}

// readUsage reads what the server has spent.
func readUsage(ctx context.Context, s *redistest.Server) (usage, error) {
	process, err := s.CPU(ctx)
	if err != nil {
		return usage{}, err
	}
	stats, err := s.CommandStats(ctx)
	if err != nil {
		return usage{}, err
	}
	sha, source := stats["evalsha"], stats["eval"]
	return usage{process, sha.Time + source.Time, sha.Calls + source.Calls}, nil
}

// since returns what was spent after an earlier reading.
func (u usage) since(o usage) usage {
	return usage{u.process - o.process, u.scripts - o.scripts, u.calls - o.calls}
}
