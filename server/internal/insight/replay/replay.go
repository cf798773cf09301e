package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// Logged says what a request means that the log's own server has limited.
type Logged string

// What requests mean that the log has with status 429, or with a verdict that limits them.
const (
	Demand   Logged = "demand"   // a request like others
	Collapse Logged = "collapse" // a request; repetitions within a minute are left out
	Drop     Logged = "drop"     // it is left out
)

// Options configure a replay.
type Options struct {
	Policy  *Policy      // required
	Against *Policy      // the policy before it; nil for none
	Logs    logs.Options // Wanted is filled in
	Assumed []Assumption
	Client  logs.Name // what distinguishes clients: a header, cookie or parameter; empty for the address
	Logged  Logged    // default: Demand
	Retry   bool      // refused requests come back after the time that their answer has
	Check   bool      // compare the log's verdicts with the policy's
	Names   func(client string) string
	// Progress is called from time to time. Default: not at all.
	Progress func(read, total, lines int64)

	seen  func(rec *logs.Record, o *outcome) // for tests: gets each request
	alone bool                               // for tests: one engine decides about all requests
}

// batchSize is how many records are decided at once.
const batchSize = 512

// batch are records, and what was decided about them.
type batch struct {
	logs.Records
	first    int64             // the id of the first
	deciding sync.WaitGroup    // the engines
	stats    logs.Stats        // after the last of them
	homes    [batchSize]uint64 // if several engines decide by a policy
	clients  [batchSize]string
	out      [mostEngines][batchSize]outcome
	late     [mostEngines][]resolution
}

// run is a replay that is under way.
type run struct {
	o       Options
	layout  *logs.Layout
	engines []*engine   // of the policy and, if there is one, of the policy before it
	sharded [][]*engine // of each of them; the first is the engine itself
	client  identity
	repeats repeats
	tally   tally
	open    map[int64]*seen // requests that wait
}

// Run replays a log. If the context ends, it returns the report of what was read until then.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Logged == "" {
		o.Logged = Demand
	}
	reader, err := o.read()
	if err != nil {
		return nil, err
	}
	r := &run{o: o, layout: reader.Layout(), open: map[int64]*seen{}}
	r.client = newIdentity(&o, r.layout)
	r.tally.init(r)
	if err = r.start(); err == nil {
		r.read(ctx, reader)
	}
	stats := reader.Stats()
	if err := errors.Join(err, reader.Err(), reader.Close()); err != nil {
		return nil, err
	}
	return r.report(&stats), nil
}

// read opens the log with all that the policies and the report read.
func (o *Options) read() (*logs.Reader, error) {
	o.Logs.Wanted = nil
	for _, p := range [mostEngines]*Policy{o.Policy, o.Against} {
		if p == nil {
			continue
		}
		wanted, err := p.Wanted()
		if err != nil {
			return nil, err
		}
		o.Logs.Wanted = append(o.Logs.Wanted, wanted...)
	}
	if o.Client.Source != "" {
		o.Logs.Wanted = append(o.Logs.Wanted, o.Client)
	}
	reader, err := logs.Open(o.Logs)
	if err != nil {
		return nil, err
	}
	if err := o.check(reader.Layout()); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return reader, nil
}

// start makes the engines.
func (r *run) start() error {
	cover := &coverage{layout: r.layout, assumed: r.o.Assumed}
	cover.open = r.o.Check && r.layout.Has&logs.HasDuration == 0 && r.layout.Has&logs.HasVerdict != 0
	for i, p := range [mostEngines]*Policy{r.o.Policy, r.o.Against} {
		if p == nil {
			continue
		}
		o, left, err := cover.within(p.Options)
		if err != nil {
			return err
		}
		r.tally.unevaluated[i] = left
		var all []*engine
		for n := 1; len(all) < n; n = r.shards(p, all[0]) {
			e, err := newEngine(p, o, r.layout, r.o.Assumed)
			if err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			e.retries = r.o.Retry
			if r.o.Check {
				e.exact = int64(max(r.layout.Blur, clockError) / time.Microsecond)
				e.open, e.named = cover.open, r.layout.Format == "sluice"
			}
			all = append(all, e)
		}
		r.engines, r.sharded = append(r.engines, all[0]), append(r.sharded, all)
	}
	return nil
}

// clockError is by how much the time of a line can differ from the time of its decision, because programs read the clock
// for each.
const clockError = 2 * time.Millisecond

// batches are how many batches are under way: while the engines decide about some, the others are read, wait, or are counted. With fewer
// and larger ones, engines wait for each other more often.
const batches = 16

// read replays all records. One goroutine reads, each engine decides in one of its own, and this one counts.
func (r *run) read(ctx context.Context, reader *logs.Reader) {
	empty, filled := make(chan *batch, batches), make(chan *batch, batches)
	for range batches {
		empty <- new(batch)
	}
	var deciders []chan *batch
	several := false
	for lane, engines := range r.sharded {
		several = several || len(engines) > 1
		for number, e := range engines {
			decided := make(chan *batch, batches)
			deciders = append(deciders, decided)
			go func() {
				for b := range decided {
					r.decide(b, lane, e, number, len(engines))
					b.deciding.Done()
				}
			}()
		}
	}
	go func() {
		defer close(filled)
		next := int64(1)
		for b := range empty {
			if ctx.Err() != nil || !reader.Next(&b.Records, batchSize) {
				break
			}
			b.stats = reader.Stats()
			if r.o.Logged != Demand {
				r.leaveOut(b)
			}
			for i := 0; several && i < len(b.All); i++ {
				b.homes[i] = home(b.All[i].Client)
			}
			b.first = next
			next += int64(len(b.All))
			b.deciding.Add(len(deciders))
			for _, d := range deciders {
				d <- b
			}
			filled <- b
		}
		for _, d := range deciders {
			close(d)
		}
	}()
	for b := range filled {
		b.deciding.Wait()
		r.count(b)
		empty <- b
	}
	for lane, e := range r.engines {
		for _, other := range r.sharded[lane][1:] {
			e.absorb(other)
		}
		e.giveUp(math.MaxInt64)
		e.advance(e.now + int64(time.Hour/time.Microsecond)) // what still waits
		r.settle(lane, e.late)
	}
}

// decide decides about a batch, or the part of a shard, by one engine.
func (r *run) decide(b *batch, lane int, e *engine, number, of int) {
	for i := range b.All {
		rec := &b.All[i]
		if of > 1 && int(b.homes[i]%uint64(of)) != number {
			continue
		}
		b.out[lane][i] = e.decide(rec, b.first+int64(i), isLimited(rec))
		if lane == 0 {
			b.clients[i] = r.client.of(e, rec)
		}
	}
	if of == 1 { // otherwise nothing waits
		b.late[lane], e.late = e.late, b.late[lane][:0]
	}
}

// isLimited reports whether the log's own server has limited a request.
func isLimited(rec *logs.Record) bool {
	return rec.Status == http.StatusTooManyRequests || !rec.Verdict.Dry && (rec.Verdict.Action == "deny" || rec.Verdict.Action == "degrade")
}

// leaveOut removes the requests that Options.Logged leaves out.
func (r *run) leaveOut(b *batch) {
	kept := 0
	for i := range b.All {
		rec := &b.All[i]
		switch limited := isLimited(rec); {
		case limited && r.o.Logged == Drop, r.o.Logged == Collapse && r.repeats.has(rec, limited):
			r.tally.leftOut++
			continue
		}
		b.All[kept], b.All[i] = b.All[i], b.All[kept]
		kept++
	}
	b.All = b.All[:kept]
}

// count counts what was decided about a batch.
func (r *run) count(b *batch) {
	s := &seen{}
	for i := range b.All {
		s.rec, s.client = &b.All[i], b.clients[i]
		for lane := range r.engines {
			s.out[lane] = b.out[lane][i]
		}
		if !s.waits() {
			r.tally.add(s)
			continue
		}
		r.open[b.first+int64(i)] = &seen{clone(s.rec), strings.Clone(s.client), s.out}
	}
	for lane := range r.engines {
		r.settle(lane, b.late[lane])
	}
	r.progress(b.stats)
}

// progress shows how much was read.
func (r *run) progress(s logs.Stats) {
	if r.o.Progress != nil {
		r.o.Progress(s.Read, s.Total, s.Lines)
	}
}

// settle counts the requests whose wait has ended.
func (r *run) settle(lane int, late []resolution) {
	for _, l := range late {
		s := r.open[l.id]
		if s == nil {
			continue // it came back, and was counted at once
		}
		if s.out[lane] = l.outcome; !s.waits() {
			r.tally.add(s)
			delete(r.open, l.id)
		}
	}
}

// mostEngines are the policy, and the policy before it.
const mostEngines = 2

// seen is a request, and what was decided about it by each engine.
type seen struct {
	rec    *logs.Record
	client string
	out    [mostEngines]outcome
}

// waits reports whether an outcome is not known yet.
func (s *seen) waits() bool { return s.out[0].kind == waiting || s.out[1].kind == waiting }
