package overredis

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
)

// The name of a metric is the name of its cell, a dash, and one of these. The name of the cell without
// them is the decisions per second.
const (
	metricP50    = "p50"    // µs, over all results
	metricP99    = "p99"    // µs
	metricScript = "script" // µs of the server in scripts, per decision of one script
	metricServer = "server" // µs of the server's processor, per decision
	metricErrors = "errors" // errors in a hundred calls
)

// A contender is a subject in a race.
type contender struct {
	name    string
	limiter peers.RedisLimiter
	keys    []string
}

// enter opens the subjects that are wanted in a step. Each takes one unit of each of its keys, so that
// all keys are live. end closes them.
func (b *bench) enter(ctx context.Context, step string, among []subject, l peers.Limit, keys int, callers []int) (all []contender, end func(), err error) {
	var closers []func() error
	end = func() {
		for _, f := range closers {
			_ = f() // the server takes their state with it
		}
	}
	for i, s := range among {
		if !b.wantsAny(step, s.name, callers) {
			continue
		}
		limiter, closer, err := s.open(ctx, b.clients, l)
		if err != nil {
			end()
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if closer != nil {
			closers = append(closers, closer)
		}
		c := contender{s.name, limiter, keysOf(i, keys)}
		if err := fill(ctx, c.limiter, c.keys); err != nil {
			end()
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, c)
	}
	return all, end, nil
}

// wantsAny reports whether a subject is wanted in any cell of a step.
func (b *bench) wantsAny(step, subject string, callers []int) bool {
	for _, n := range callers {
		if b.Wants(cell(step, n), subject) {
			return true
		}
	}
	return false
}

// race gives every contender its turn in each cell in each round, so that a disturbance of the machine
// affects all of them. Each round begins with another contender. Garbage is collected between turns.
func (b *bench) race(ctx context.Context, step string, contenders []contender, callers []int) error {
	type entry struct {
		contender
		cell string
		load *load
		outs []outcome
	}
	cells := make([][]*entry, len(callers))
	for i, n := range callers {
		for _, c := range contenders {
			if name := cell(step, n); b.Wants(name, c.name) {
				cells[i] = append(cells[i], &entry{c, name, newLoad(c.limiter, c.keys, n), nil})
			}
		}
	}
	read := func() (usage, error) { return readUsage(ctx, b.server) }
	length := b.duration / time.Duration(b.rounds)
	for round := range b.rounds {
		b.quiet = append(b.quiet, figures.Quiet())
		for _, entries := range cells {
			for i := range entries {
				e := entries[(i+round)%len(entries)]
				runtime.GC()
				out, err := e.load.turn(ctx, length/8, length, read)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", e.cell, e.name, err)
				}
				e.outs = append(e.outs, out)
			}
		}
	}
	for _, entries := range cells {
		for _, e := range entries {
			b.record(e.cell, e.name, e.outs)
		}
	}
	return nil
}

// record turns the outcomes of a subject's turns into figures.
func (b *bench) record(cell, subject string, outs []outcome) {
	values := map[string][]float64{}
	add := func(metric string, v float64) { values[metric] = append(values[metric], v) }
	var sum tally
	for _, o := range outs {
		sum.add(o.tally)
		n := float64(o.decided)
		add("", n/o.took.Seconds())
		if n == 0 {
			continue
		}
		add(metricP50, micros(o.p50))
		add(metricP99, micros(o.p99))
		add(metricServer, micros(o.server.process)/n)
		if oneScriptEach(o) {
			add(metricScript, micros(o.server.scripts)/float64(o.server.calls))
		}
	}
	for metric, v := range values {
		b.results.Set(metricOf(cell, metric), subject, figures.Summarize(v))
	}
	wrong := sum.errors + sum.denied
	b.results.Set(metricOf(cell, metricErrors), subject, figures.Once(100*float64(wrong)/float64(max(1, sum.decided+sum.errors))))
	if sum.err != nil {
		b.failed[metricOf(cell, subject)] = sum.err.Error()
	} else if sum.denied > 0 {
		b.failed[metricOf(cell, subject)] = "denies what its limit admits"
	}
}

// oneScriptEach reports whether each call was one script. Only then is the time in scripts the time of
// the decisions.
func oneScriptEach(o outcome) bool {
	return o.server.calls > 0 && o.server.calls == int64(o.decided+o.errors)
}

// metricOf returns the full name of a metric.
func metricOf(cell, metric string) string {
	if metric == "" {
		return cell
	}
	return cell + "-" + metric
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// The limits never deny during a run. They refill so slowly that no state becomes fresh and expires:
// each decision reads a state and writes another.
var (
	keysLimit = peers.Limit{Burst: 1_000_000, Every: time.Minute, Window: 24 * time.Hour}
	hotLimit  = peers.Limit{Burst: 100_000_000, Every: time.Second, Window: 24 * time.Hour}
)

// measureKeys times decisions over many keys.
func measureKeys(ctx context.Context, b *bench) error {
	return b.measureDecisions(ctx, "keys", subjects(), keysLimit, b.keys, b.callers)
}

// measureHot times decisions on one key.
func measureHot(ctx context.Context, b *bench) error {
	return b.measureDecisions(ctx, "hot", subjects(), hotLimit, 1, b.callers)
}

// measureBatch times decisions of four limits of a key at once, over many keys.
func measureBatch(ctx context.Context, b *bench) error {
	return b.measureDecisions(ctx, "batch", batchSubjects(), keysLimit, b.keys, []int{barCallers})
}

func (b *bench) measureDecisions(ctx context.Context, step string, among []subject, l peers.Limit, keys int, callers []int) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	contenders, end, err := b.enter(ctx, step, among, l, keys, callers)
	if err != nil {
		return err
	}
	defer end()
	return b.race(ctx, step, contenders, callers)
}
