package gate

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Gate carries out verdicts whose charges are in one store. Edges that share a
// Gate share its queues. It is safe for concurrent use, and starts no goroutine: a
// request waits in its own. Leases that the store did not end are ended later, by timers.
type Gate struct {
	store     sluice.Store
	o         Options
	queues    queues
	lines     lines
	pressures pressures
	again     atomic.Int64 // requests with leases that are to be ended later
}

// New returns a gate for verdicts that were decided over store. The store may be nil if
// they never hold charges.
func New(store sluice.Store, o Options) (*Gate, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	g := &Gate{store: store, o: o}
	g.queues.init(o.MaxWaiting)
	g.lines.init()
	g.pressures.init(o.Window, o.Share)
	return g, nil
}

// Waiting returns how many requests wait now.
func (g *Gate) Waiting() int { return g.queues.waiting() }

// Pressure returns the demand for a rule's limits divided by what they give, over the window: 1
// if all of it is asked for, 2 if twice as much is. Denied requests ask too. Of several limits
// it is the greatest; of a concurrency limit, the units that are asked for at once. Of a rule
// with many keys it is the mean of those that were active, told apart up to some 100,000 of
// them. Zero for a rule that nobody met. It is what policy.Options.Pressure asks for.
func (g *Gate) Pressure(rule string) float64 { return g.pressures.of(rule) }

// Observe tells the pressure of a verdict that is carried out elsewhere, such as by the program that
// asked for it over a network. Of those that Enter is given, it knows.
func (g *Gate) Observe(v *policy.Verdict) { g.survey(v) }

// Enter carries a verdict out up to the moment in which the request may be handled: it
// waits for the verdict's delays, and for places of concurrency limits, which it
// holds from then on. The pass, nil if there is nothing to end, is to be ended by Leave.
//
// An error says that the request is not to be handled; what it took has been given
// back. It is ErrDenied for a verdict that denies, or else an *Error, and the verdict has
// become the denial that is to be told: at once if the queue is full or the wait too
// long. If ctx has ended, the client has, too.
func (g *Gate) Enter(ctx context.Context, v *policy.Verdict) (*Admission, error) {
	work := g.survey(v)
	if !v.Allowed() {
		if work.leases {
			g.hold(ctx, v).cancel(ctx) // of rules in shadow
		}
		return nil, ErrDenied
	}
	if !work.delays && !work.leases && !work.settles && g.o.Counts == nil {
		return nil, nil //nolint:nilnil // a nil Admission is valid: nothing to end
	}
	p := &Admission{gate: g, met: v.Results}
	if work.leases {
		p.held = g.hold(ctx, v)
	}
	if work.delays {
		if m, err := g.wait(ctx, v); err != nil {
			p.undo(ctx)
			return nil, g.refuse(v, m, err)
		}
		v.Delay = 0
	}
	p.held.begin()
	return p, nil
}

// work is what a verdict needs to have done.
type work struct{ delays, leases, settles bool }

// survey finds out what a verdict needs, and tells the pressure of what was asked.
func (g *Gate) survey(v *policy.Verdict) (w work) {
	var now time.Duration
	for i := range v.Results {
		m := &v.Results[i]
		if m.Rule != nil && m.Role != policy.RoleCandidate && m.Listed == policy.NotListed {
			if now == 0 {
				now = g.pressures.now()
			}
			g.pressures.observe(m, now, v.Err == nil)
		}
		if !m.Decision.Allowed || m.Returned {
			continue
		}
		w.leases = w.leases || m.Request.Member != 0
		w.delays = w.delays || delayed(m)
		w.settles = w.settles || m.Settles()
	}
	return w
}

// delayed reports whether the request must wait for a limit.
func delayed(m *policy.LimitResult) bool {
	return m.Decision.Delay > 0 && m.Decision.Allowed && !m.Request.Shadow && m.Role == policy.RoleEnforced
}

// charged reports whether a request that passed its verdict was charged, for other than a lease.
func charged(m *policy.LimitResult) bool {
	return m.Decision.Allowed && m.Request.Cost > 0 && m.Request.Member == 0 && !m.Request.Peek && !m.Returned && m.Listed == policy.NotListed
}

// wait waits for all delays of a verdict. With an error it returns the limit for which it
// could not.
func (g *Gate) wait(ctx context.Context, v *policy.Verdict) (*policy.LimitResult, error) {
	if err := ctx.Err(); err != nil {
		return longest(v), err
	}
	began := time.Now()
	deadline, bounded := ctx.Deadline()
	var places []place
	defer func() { g.queues.leave(places) }()
	for i := range v.Results {
		m := &v.Results[i]
		if !delayed(m) {
			continue
		}
		if m.Decision.Delay > g.o.most(m) {
			return m, ErrTooLate
		}
		if bounded && deadline.Sub(began) < m.Decision.Delay {
			return m, sluice.ErrDeadline
		}
		at := placeOf(m)
		if err := g.queues.enter(at, m.Rule, len(places) == 0); err != nil {
			return m, err
		}
		places = append(places, at)
	}
	var turn time.Duration
	for i := range v.Results {
		if m := &v.Results[i]; delayed(m) && m.Request.Member == 0 {
			turn = max(turn, m.Decision.Delay)
		}
	}
	if err := sleep(ctx, turn); err != nil {
		return longest(v), err
	}
	for i := range v.Results {
		m := &v.Results[i]
		if !delayed(m) || m.Request.Member == 0 {
			continue
		}
		if err := g.await(ctx, m, began.Add(g.o.most(m))); err != nil {
			return m, err
		}
	}
	return nil, nil //nolint:nilnil // no limit is at fault
}

// longest returns the limit with the longest delay.
func longest(v *policy.Verdict) *policy.LimitResult {
	var most *policy.LimitResult
	for i := range v.Results {
		if m := &v.Results[i]; delayed(m) && (most == nil || m.Decision.Delay > most.Decision.Delay) {
			most = m
		}
	}
	return most
}

// sleep waits for d or the end of the context.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuse makes a denial of a verdict whose request could not wait, or not for long enough.
func (g *Gate) refuse(v *policy.Verdict, m *policy.LimitResult, err error) error {
	refused := &Error{Limit: m.Request.Limit.Name(), Err: err}
	if m.Rule != nil {
		refused.Rule = m.Rule.Name
	}
	wait := m.Decision.Delay
	var failed *storeError
	reason := sluice.ReasonLimited
	switch {
	case errors.Is(err, ErrTooLate):
		// By then the delay is one that is accepted, if nobody else asks.
		wait -= max(0, g.o.most(m))
	case errors.Is(err, context.DeadlineExceeded):
		refused.Err = errors.Join(sluice.ErrDeadline, err)
	case errors.As(err, &failed):
		refused.Err, reason = failed.err, sluice.ReasonStoreError
	}
	v.Action, v.Reason, v.Err, v.Delay = policy.Deny, reason, refused, 0
	v.Rule, v.Degrade, v.Mark, v.Paced = m.Rule, nil, nil, nil
	v.Tightest, v.TightestLimit = m.Decision, m.Request.Limit
	v.Tightest.Allowed, v.Tightest.Reason, v.Tightest.Remaining, v.Tightest.Delay = false, reason, 0, 0
	v.Tightest.RetryAfter = max(wait, time.Second)
	return refused
}
