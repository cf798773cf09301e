package pipeline

import (
	"context"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// Pipeline is a store for questions that arrive together. Do runs a question until the store must be called. Then the
// question pauses, and the next one runs. Questions are answered in their order. If two of them decide about the same
// key, the store is called for the second when the first has been answered.
//
// All questions run on the goroutine that calls Do and Finish, so they may share data. Only one goroutine may use a
// Pipeline at a time. A question must not call Do or Finish. A caller calls Finish before it waits for anything else
// than the store, such as its client.
type Pipeline struct {
	driver.LocalDecider // the store

	shared  *Pipelines
	running *question
	paused  []*question // in the order of their answers
	idle    []*question // have been answered, and can run another question
	last    map[subject]*question
	open    *call // of questions about several subjects; it has not begun
}

var _ sluice.Store = (*Pipeline)(nil)

// Do runs a question. The question calls Turn before it answers, and decides by the Pipeline. Do returns when the
// question has been answered or pauses.
func (p *Pipeline) Do(question func()) {
	if len(p.paused) == depth {
		p.answerAll()
	}
	if !book(p.shared.paused) {
		p.answerAll()
		question()
		return
	}
	q := p.routine()
	q.work = question
	p.run(q)
	if q.work != nil {
		p.paused = append(p.paused, q)
		return
	}
	<-p.shared.paused
	p.idle = append(p.idle, q)
}

// Finish answers all questions.
func (p *Pipeline) Finish() {
	p.answerAll()
	for _, q := range p.idle {
		p.shared.keep(q)
	}
	clear(p.idle)
	p.idle = p.idle[:0]
}

// Turn returns when all earlier questions have been answered. It does nothing outside of questions.
func (p *Pipeline) Turn() {
	if q := p.running; q != nil && !q.turn && len(p.paused) > 0 {
		q.pause()
	}
}

// Pending reports whether questions are paused.
func (p *Pipeline) Pending() bool { return len(p.paused) > 0 }

// answerAll answers all questions, even if one of them panics.
func (p *Pipeline) answerAll() {
	if c := p.open; c != nil {
		p.open, c.open = nil, false
		c.decide(p.LocalDecider) // calls of other questions are in flight meanwhile
	}
	if len(p.paused) > 0 {
		defer p.answerAll()
		p.answerFirst()
	}
}

// answerFirst waits for the decision of the first question, and lets it answer.
func (p *Pipeline) answerFirst() {
	q := p.paused[0]
	copy(p.paused, p.paused[1:])
	p.paused[len(p.paused)-1] = nil
	p.paused = p.paused[:len(p.paused)-1]
	defer p.end(q)
	if q.call != nil && q.call.done != nil {
		<-q.call.done
	}
	<-p.shared.paused
	q.turn = true
	p.run(q)
}

// run runs a question until it pauses or has been answered.
func (p *Pipeline) run(q *question) {
	p.running = q
	q.next()
	p.running = nil
}

// Decide decides one request. See sluice.Store.
func (p *Pipeline) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	q := p.running
	if q == nil || q.turn {
		return p.LocalDecider.Decide(ctx, r)
	}
	if err := r.Check(); err != nil {
		return sluice.Decision{}, err
	}
	if !p.touched(&r) {
		if d, ok := p.DecideLocally(r); ok {
			return d, nil
		}
	}
	p.callOne(ctx, q, &r)
	q.pause()
	return q.call.decisions[q.at], q.call.err
}

// DecideAll decides several requests as one. See sluice.Store.
func (p *Pipeline) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	q := p.running
	if q == nil || q.turn {
		return p.LocalDecider.DecideAll(ctx, rs, out)
	}
	near := true
	for i := range rs {
		if err := rs[i].Check(); err != nil {
			return err
		}
		near = near && !p.touched(&rs[i])
	}
	if near && p.DecideAllLocally(rs, out) {
		return nil
	}
	p.callAll(ctx, q, rs, out)
	q.pause()
	return q.call.err
}
