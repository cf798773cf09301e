package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicehq/sluice/checks/figures"
	"github.com/sluicehq/sluice/checks/redispeers"
)

// load is what callers do at once: each asks for a key drawn from keys, and when
// it has its answer, for the next.
type load struct {
	limiter redispeers.Limiter
	keys    []string
	callers []caller
}

// caller is one goroutine's part. It keeps its memory from turn to turn.
type caller struct {
	draw  *rand.Rand
	tally tally
	took  figures.Latencies
}

// tally counts answers.
type tally struct {
	decided int // answers without an error
	denied  int // of those
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

func newLoad(l redispeers.Limiter, keys []string, callers int) *load {
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
	p50, p99 time.Duration // of all answers
	server   usage         // what the server spent
}

// turn lets all callers ask for a while that is not counted, and then for the
// given time. It reads what the server spent around the latter, while nobody asks.
func (l *load) turn(ctx context.Context, warmUp, length time.Duration, read func() (usage, error)) (outcome, error) {
	var warm, done sync.WaitGroup
	warm.Add(len(l.callers))
	release := make(chan time.Time)
	begun := time.Now()
	for i := range l.callers {
		c := &l.callers[i]
		done.Go(func() {
			l.ask(ctx, c, begun, begun.Add(warmUp))
			c.tally = tally{}
			c.took.Reset()
			warm.Done()
			start := <-release
			l.ask(ctx, c, start, start.Add(length))
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
	var all figures.Latencies
	for i := range l.callers {
		o.add(l.callers[i].tally)
		all.Merge(&l.callers[i].took)
	}
	o.p50, o.p99 = all.Quantile(0.5), all.Quantile(0.99)
	return o, ctx.Err()
}

// ask asks until the end. The end of one call is the beginning of the next, so
// that the clock is read once for each.
func (l *load) ask(ctx context.Context, c *caller, now, end time.Time) {
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
