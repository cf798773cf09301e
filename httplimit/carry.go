package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// statusGone is what logs show for a request whose client went away, after nginx.
const statusGone = 499

// serveOther carries out a verdict that needs more than headers.
func (m *Middleware) serveOther(w http.ResponseWriter, r *http.Request, next http.Handler, v policy.Verdict) {
	if v.Err != nil {
		m.o.OnError(r, v.Err)
		if isGone(r) {
			w.WriteHeader(statusGone)
			return
		}
	}
	charges := v.Charges()
	if v.Allowed() && v.Delay > 0 {
		if err := m.wait(r, &v); err != nil {
			m.cancel(r, &v, charges)
			if isGone(r) {
				w.WriteHeader(statusGone)
				return
			}
			refuse(&v, err, m.waiter.MaxDelay())
			charges = nil
		}
	}
	if !v.Allowed() {
		m.cancelLeases(r, charges)
		m.headers.Set(w.Header(), &v)
		m.o.OnDenied(w, r, &v)
		return
	}
	m.headers.Set(w.Header(), &v)
	if m.o.Context {
		r = r.WithContext(NewContext(r.Context(), &v))
	}
	if len(charges) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	m.handle(w, r, next, &v, charges)
}

// isGone reports whether the client has gone away. A deadline is the server's own.
func isGone(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

// handle runs the handler and ends what was charged for it.
func (m *Middleware) handle(w http.ResponseWriter, r *http.Request, next http.Handler, v *policy.Verdict, charges []sluice.Charge) {
	held := m.hold(r, v)
	defer held.release()
	if m.o.Counts == nil {
		next.ServeHTTP(w, r)
		return
	}
	record, w := newRecorder(w)
	panicked := true
	defer func() {
		status := record.status
		switch {
		case status != 0:
		case panicked:
			status = http.StatusInternalServerError
		default:
			status = http.StatusOK
		}
		if !m.o.Counts(status) {
			m.settle(r, charges)
		}
	}()
	next.ServeHTTP(w, r)
	panicked = false
}

// wait lets an allowed request wait for its delay. One in the queue of a
// concurrency limit asks again afterwards, until it is its turn.
func (m *Middleware) wait(r *http.Request, v *policy.Verdict) error {
	ctx := r.Context()
	for waited := time.Duration(0); v.Delay > 0; {
		if waited+v.Delay > m.waiter.MaxDelay() {
			return ErrDelayTooLong
		}
		if err := m.waiter.Wait(ctx, v.Delay); err != nil {
			return err
		}
		waited += v.Delay
		v.Delay = 0
		for i := range v.Met {
			q := &v.Met[i]
			if q.Request.Member == 0 || q.Request.Shadow || !q.Decision.Allowed || q.Decision.Delay <= 0 {
				continue
			}
			d, err := m.decider.Store().Decide(ctx, q.Request)
			if err != nil {
				// It holds its lease, and has waited for as long as it was told to.
				m.o.OnError(r, err)
				continue
			}
			q.Decision.Delay = d.Delay
			if !d.Allowed {
				q.Decision = d
				return sluice.ErrLeaseLost
			}
			v.Delay = max(v.Delay, d.Delay)
		}
	}
	return nil
}

// refuse makes a denial of a verdict whose request could not wait, or not for long enough.
func refuse(v *policy.Verdict, err error, most time.Duration) {
	wait := v.Delay
	switch {
	case errors.Is(err, ErrDelayTooLong):
		// By then the delay is one that is accepted, if nobody else asks.
		wait -= max(0, most)
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.Join(sluice.ErrDeadline, err)
	}
	v.Action, v.Reason, v.Err, v.Delay = policy.Deny, sluice.ReasonLimited, err, 0
	v.Tightest.Allowed, v.Tightest.Remaining, v.Tightest.Delay = false, 0, 0
	v.Tightest.RetryAfter = max(wait, time.Second)
}

// ending is the context in which charges are ended: that of the request, which may
// have been ended by then.
func ending(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

// cancel gives back what a request took that is not handled.
func (m *Middleware) cancel(r *http.Request, v *policy.Verdict, charges []sluice.Charge) {
	for i := range charges {
		c := &charges[i]
		var err error
		if c.Member != 0 || isDelayed(v, c) {
			err = m.decider.Store().Cancel(ending(r), *c)
		} else {
			// Its own moment was when it was charged, and canceling gives back nothing
			// of what was to act by now.
			err = m.decider.Store().Settle(ending(r), *c, 0)
		}
		if err != nil {
			m.o.OnError(r, err)
		}
	}
}

// isDelayed reports whether it is this charge for which the request waits.
func isDelayed(v *policy.Verdict, c *sluice.Charge) bool {
	for i := range v.Met {
		q := &v.Met[i]
		if q.Request.Limit == c.Limit && q.Request.Key == c.Key && q.Decision.Receipt == c.Receipt {
			return q.Decision.Delay > 0
		}
	}
	return false
}

// cancelLeases ends leases of a request that is refused: a rule in shadow may have
// granted them all the same.
func (m *Middleware) cancelLeases(r *http.Request, charges []sluice.Charge) {
	for i := range charges {
		if charges[i].Member == 0 {
			continue
		}
		if err := m.decider.Store().Cancel(ending(r), charges[i]); err != nil {
			m.o.OnError(r, err)
		}
	}
}

// settle takes back the charges of a request that does not count; leases, which
// are released, are none.
func (m *Middleware) settle(r *http.Request, charges []sluice.Charge) {
	for i := range charges {
		if charges[i].Member != 0 {
			continue
		}
		if err := m.decider.Store().Settle(ending(r), charges[i], 0); err != nil {
			m.o.OnError(r, err)
		}
	}
}
