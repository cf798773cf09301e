package pipeline

import (
	"context"

	"github.com/sluicehq/sluice"
)

// subject is what a request decides about: the states and the ban that a key has under the name of a limit.
type subject struct {
	limit [2]uint64
	key   sluice.Key
}

func subjectOf(r *sluice.Request) subject { return subject{r.Limit.NameID(), r.Key} }

// touched reports whether a paused question decides about the same key.
func (p *Pipeline) touched(r *sluice.Request) bool {
	return len(p.last) > 0 && p.last[subjectOf(r)] != nil
}

// call is a call of the store.
type call struct {
	ctx       context.Context
	requests  []sluice.Request
	decisions []sluice.Decision
	err       error
	// all means that the requests are one question. Otherwise each is a question of its own.
	all bool
	// open means that requests of other questions may join until the call begins.
	open    bool
	earlier int           // how many answers it waits for
	done    chan struct{} // closed when the store has decided; nil for a call on the goroutine of the pipeline
}

// callOne calls the store for a request of a question. Requests of several questions share a call if they can.
func (p *Pipeline) callOne(ctx context.Context, q *question, r *sluice.Request) {
	at := subjectOf(r)
	// A hybrid store counts calls, and leases may be given back with the answer.
	open := r.Limit.Hybrid() == nil && !r.Limit.IsConcurrency()
	e, shared := p.last[at], p.open
	if e != nil {
		shared = e.call
	}
	if open && shared != nil && shared.open {
		q.call, q.at = shared, len(shared.requests)
		shared.requests = append(shared.requests, *r)
		shared.decisions = append(shared.decisions, sluice.Decision{})
		p.claim(q, at)
		return
	}
	q.call = &call{ctx: ctx, requests: []sluice.Request{*r}, decisions: make([]sluice.Decision, 1), open: open}
	p.follow(q, at)
	p.claim(q, at)
	if open && p.shared.joins && e == nil {
		p.open = q.call // it begins when there are no further questions
		return
	}
	p.beginFirst(q.call)
}

// callAll calls the store for the requests of a question, which are decided as one.
func (p *Pipeline) callAll(ctx context.Context, q *question, rs []sluice.Request, out []sluice.Decision) {
	q.call = &call{ctx: ctx, requests: rs, decisions: out, all: true}
	for i := range rs {
		p.follow(q, subjectOf(&rs[i]))
	}
	for i := range rs {
		p.claim(q, subjectOf(&rs[i]))
	}
	p.beginFirst(q.call)
}

// follow makes the call of a question wait for the last question about a subject.
func (p *Pipeline) follow(q *question, at subject) {
	if e := p.last[at]; e != nil {
		e.later = append(e.later, q.call)
		q.call.earlier++
	}
}

// claim makes a question the last one about a subject.
func (p *Pipeline) claim(q *question, at subject) {
	p.last[at] = q
	q.subjects = append(q.subjects, at)
}

// beginFirst begins a call that waits for no answer.
func (p *Pipeline) beginFirst(c *call) {
	if c.earlier == 0 {
		p.begin(c)
	}
}

// begin calls the store, in a goroutine if not too many are calling. It ends with the call.
func (p *Pipeline) begin(c *call) {
	c.open = false
	if !book(p.shared.calls) {
		c.decide(p.LocalDecider)
		return
	}
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		c.decide(p.LocalDecider)
		<-p.shared.calls
	}()
}

func (c *call) decide(store sluice.Store) {
	if !c.all && len(c.requests) == 1 {
		c.decisions[0], c.err = store.Decide(c.ctx, c.requests[0])
		return
	}
	if !c.all {
		for i := range c.requests {
			c.requests[i].Shadow = true // so that each is decided on its own
		}
	}
	c.err = store.DecideAll(c.ctx, c.requests, c.decisions)
}
