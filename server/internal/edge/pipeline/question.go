package pipeline

import "iter"

// question is a question that runs as a coroutine: on the goroutine of its pipeline, until it pauses.
type question struct {
	work  func() // nil when it has been answered
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	turn bool // all earlier questions have been answered

	call     *call // nil if it needs none
	at       int   // the index of its request in the call
	subjects []subject
	// later are the calls that begin when this question has been answered.
	later []*call
}

// routine returns a question that can run.
func (p *Pipeline) routine() *question {
	if n := len(p.idle); n > 0 {
		q := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		return q
	}
	select {
	case q := <-p.shared.idle:
		return q
	default:
	}
	q := &question{}
	q.next, q.stop = iter.Pull(func(yield func(struct{}) bool) {
		q.yield = yield
		for more := true; more; more = yield(struct{}{}) {
			q.work()
			q.work = nil
		}
	})
	return q
}

// pause lets other questions run until it is this question's turn.
func (q *question) pause() { q.yield(struct{}{}) }

// end makes room for later questions, and begins the calls that have waited for the answer.
func (p *Pipeline) end(q *question) {
	for _, at := range q.subjects {
		if p.last[at] == q {
			delete(p.last, at)
		}
	}
	for _, c := range q.later {
		if c.earlier--; c.earlier == 0 {
			p.begin(c)
		}
	}
	if q.work == nil { // and has not panicked
		clear(q.subjects)
		clear(q.later)
		*q = question{next: q.next, stop: q.stop, yield: q.yield, subjects: q.subjects[:0], later: q.later[:0]}
		p.idle = append(p.idle, q)
	}
}
