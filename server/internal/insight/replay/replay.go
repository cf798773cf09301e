package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/policy"
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
const batchSize = 2048

// batch are records, and what was decided about them.
type batch struct {
	records  [batchSize]logs.Record
	n        int
	values   []string // of the records
	text     []byte   // their texts, one after the other
	first    int64    // the id of the first
	leftOut  int64
	stats    logs.Stats // after the last of them
	clients  [batchSize]string
	shards   [batchSize]uint8     // of the engines that decide
	lanes    [][batchSize]outcome // of each engine
	late     [][]resolution       // of each engine
	deciding sync.WaitGroup       // the engines
}

// fill reads the next records, and copies their texts: the reader uses the memory again.
func (b *batch) fill(ctx context.Context, reader *logs.Reader) {
	names := len(reader.Layout().Names)
	if b.values == nil {
		b.values = make([]string, names*batchSize)
	}
	b.text = b.text[:0]
	for b.n = 0; b.n < batchSize && ctx.Err() == nil && reader.Next(&b.records[b.n]); b.n++ {
		rec := &b.records[b.n]
		own := b.values[b.n*names : (b.n+1)*names]
		copy(own, rec.Values)
		rec.Values = own
		eachText(rec, func(text *string) { b.text = append(b.text, *text...) })
	}
	all := string(b.text)
	for i := range b.n {
		eachText(&b.records[i], func(text *string) { *text, all = all[:len(*text)], all[len(*text):] })
	}
	b.stats = reader.Stats()
}

// eachText calls a function for each text of a record that a replay uses.
func eachText(rec *logs.Record, do func(text *string)) {
	do(&rec.Client)
	do(&rec.Method)
	do(&rec.Target)
	do(&rec.Host)
	do(&rec.Verdict.Action)
	do(&rec.Verdict.Rule)
	for i := range rec.Values {
		do(&rec.Values[i])
	}
}

// run is a replay that is under way.
type run struct {
	o       Options
	layout  *logs.Layout
	engines []*engine   // of the policy and, if there is one, of the policy before it
	sharded [][]*engine // of each of them; the first is the engine itself
	against int         // the index of the engine of the policy before; 0 for none
	client  identity
	repeats repeats
	tally   tally
	seen    seen            // room for the current request
	open    map[int64]*seen // requests that wait
}

// Run replays a log. If the context ends, it returns the report of what was read until then.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Logged == "" {
		o.Logged = Demand
	}
	wanted, err := o.Policy.Wanted()
	if err != nil {
		return nil, err
	}
	if o.Against != nil {
		more, err := o.Against.Wanted()
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, more...)
	}
	if o.Client.Source != "" {
		wanted = append(wanted, o.Client)
	}
	o.Logs.Wanted = wanted
	reader, err := logs.Open(o.Logs)
	if err != nil {
		return nil, err
	}
	if err := o.check(reader.Layout()); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	r := &run{o: o, layout: reader.Layout(), open: map[int64]*seen{}}
	r.client = newIdentity(&o, r.layout)
	r.tally.init(r)
	err = r.read(ctx, reader)
	stats := reader.Stats()
	if err := errors.Join(err, reader.Err(), reader.Close()); err != nil {
		return nil, err
	}
	return r.report(&stats), nil
}

// start makes the engines. Their time begins with the first record.
func (r *run) start(at int64) error {
	cover := &coverage{layout: r.layout, assumed: r.o.Assumed}
	cover.open = r.o.Check && r.layout.Has&logs.HasDuration == 0 && r.layout.Has&logs.HasVerdict != 0
	add := func(p *Policy, o policy.Options) error {
		e, err := newEngine(p, o, r.layout, r.o.Assumed, at)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		e.retries = r.o.Retry
		if r.o.Check {
			e.exact = int64(max(r.layout.Blur, clockError) / time.Microsecond)
			e.open, e.named = cover.open, r.layout.Format == "sluice"
		}
		all := []*engine{e}
		for range r.shards(p, e) - 1 {
			e, err := newEngine(p, o, r.layout, r.o.Assumed, at)
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		r.engines, r.sharded = append(r.engines, e), append(r.sharded, all)
		return nil
	}
	o, left, err := cover.within(r.o.Policy.Options)
	if err != nil {
		return err
	}
	r.tally.unevaluated = left
	if err := add(r.o.Policy, o); err != nil {
		return err
	}
	if a := r.o.Against; a != nil {
		old, left, err := cover.within(a.Options)
		if err != nil {
			return err
		}
		r.against, r.tally.unevaluatedOld = len(r.engines), left
		if err := add(a, old); err != nil {
			return err
		}
	}
	return nil
}

// clockError is by how much the time of a line can differ from the time of its decision, because programs read the clock
// for each.
const clockError = 2 * time.Millisecond

// batches are how many batches are under way.
const batches = 6

// read replays all records. One goroutine reads, each engine decides in one of its own, and this one counts.
func (r *run) read(ctx context.Context, reader *logs.Reader) error {
	empty, filled := make(chan *batch, batches), make(chan *batch, batches)
	for range batches {
		empty <- new(batch)
	}
	var failed error // of feed; read when filled is closed
	var working sync.WaitGroup
	working.Go(func() {
		defer close(filled)
		failed = r.feed(ctx, reader, empty, filled, &working)
	})
	for b := range filled {
		b.deciding.Wait()
		r.count(b)
		if r.o.Progress != nil {
			r.o.Progress(b.stats.Read, b.stats.Total, b.stats.Lines)
		}
		empty <- b
	}
	working.Wait()
	for lane, e := range r.engines {
		for _, other := range r.sharded[lane][1:] {
			e.absorb(other)
		}
		e.giveUp(math.MaxInt64)
		e.advance(e.now + int64(time.Hour/time.Microsecond)) // what still waits
		r.settle(lane, e.late)
	}
	return failed
}

// feed fills batches, and gives them to the engines, which it starts.
func (r *run) feed(ctx context.Context, reader *logs.Reader, empty <-chan *batch, filled chan<- *batch, working *sync.WaitGroup) error {
	var engines []chan *batch
	defer func() {
		for _, c := range engines {
			close(c)
		}
	}()
	next, most := int64(1), 0 // the number of engines of a policy
	for b := range empty {
		b.fill(ctx, reader)
		if r.engines == nil {
			if err := r.start(b.records[0].At); err != nil {
				return err
			}
			engines = r.work(working)
			most = len(slices.MaxFunc(r.sharded, func(x, y []*engine) int { return len(x) - len(y) }))
		}
		if b.n == 0 {
			break
		}
		if r.o.Logged != Demand {
			r.leaveOut(b)
		}
		if b.lanes == nil {
			b.lanes, b.late = make([][batchSize]outcome, len(r.engines)), make([][]resolution, len(r.engines))
		}
		if most > 1 {
			for i := range b.n {
				b.shards[i] = shard(b.records[i].Client, most)
			}
		}
		b.first = next
		next += int64(b.n)
		b.deciding.Add(len(engines))
		for _, c := range engines {
			c <- b
		}
		filled <- b
	}
	return nil
}

// work lets each engine decide about the batches that a channel gives it.
func (r *run) work(working *sync.WaitGroup) (all []chan *batch) {
	for lane, engines := range r.sharded {
		for number, e := range engines {
			c := make(chan *batch, batches)
			all = append(all, c)
			working.Go(func() {
				for b := range c {
					r.decide(b, lane, e, uint8(number), len(engines))
					b.deciding.Done()
				}
			})
		}
	}
	return all
}

// decide decides about a batch, or the part of a shard, by one engine.
func (r *run) decide(b *batch, lane int, e *engine, number uint8, of int) {
	out := &b.lanes[lane]
	for i := range b.n {
		rec := &b.records[i]
		if of > 1 && b.shards[i] != number {
			continue
		}
		out[i] = e.decide(rec, b.first+int64(i), isLimited(rec))
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
	for i := range b.n {
		rec := &b.records[i]
		switch limited := isLimited(rec); {
		case limited && r.o.Logged == Drop, r.o.Logged == Collapse && r.repeats.has(rec, limited):
			b.leftOut++
			continue
		}
		if kept != i {
			b.records[kept] = *rec
		}
		kept++
	}
	b.n = kept
}

// count counts what was decided about a batch.
func (r *run) count(b *batch) {
	r.tally.leftOut += b.leftOut
	b.leftOut = 0
	s := &r.seen
	for i := range b.n {
		s.rec, s.client = &b.records[i], b.clients[i]
		for lane := range r.engines {
			s.out[lane] = b.lanes[lane][i]
		}
		if !s.waits(len(r.engines)) {
			r.tally.add(s)
			continue
		}
		r.open[b.first+int64(i)] = &seen{clone(s.rec), strings.Clone(s.client), s.out}
	}
	for lane := range r.engines {
		r.settle(lane, b.late[lane])
	}
}

// settle counts the requests whose wait has ended.
func (r *run) settle(lane int, late []resolution) {
	for _, l := range late {
		s := r.open[l.id]
		if s == nil {
			continue // it came back, and was counted at once
		}
		if s.out[lane] = l.outcome; !s.waits(len(r.engines)) {
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
func (s *seen) waits(engines int) bool {
	for i := range engines {
		if s.out[i].kind == waiting {
			return true
		}
	}
	return false
}
