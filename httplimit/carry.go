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
	}
	charges := v.Charges()
	granted := time.Now()
	if v.Allowed() {
		if err := m.wait(r, &v); err != nil {
			m.cancel(r, charges)
			if r.Context().Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
				w.WriteHeader(statusGone)
				return
			}
			refuse(&v, err, m.waiter.MaxDelay())
			charges = nil
		}
	}
	if !v.Allowed() {
		m.release(r, charges, granted)
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
	m.handle(w, r, next, charges)
}

// handle runs the handler and ends what was charged for it.
func (m *Middleware) handle(w http.ResponseWriter, r *http.Request, next http.Handler, charges []sluice.Charge) {
	began := time.Now()
	if m.o.Counts == nil {
		defer m.release(r, charges, began)
		next.ServeHTTP(w, r)
		return
	}
	record, w := newRecorder(w)
	panicked := true
	defer func() {
		m.release(r, charges, began)
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
			switch {
			case err != nil:
				return err
			case !d.Allowed:
				return sluice.ErrLeaseLost
			}
			q.Decision = d
			v.Delay = max(v.Delay, d.Delay)
		}
	}
	return nil
}

// refuse makes a denial of a verdict whose request could not wait.
func refuse(v *policy.Verdict, err error, most time.Duration) {
	v.Action, v.Reason, v.Err = policy.Deny, sluice.ReasonLimited, err
	v.Tightest.Allowed, v.Tightest.Remaining = false, 0
	v.Tightest.RetryAfter = v.Delay
	switch {
	case errors.Is(err, ErrDelayTooLong):
		// By then the delay is one that is accepted, if nobody else asks.
		v.Tightest.RetryAfter = v.Delay - max(0, most)
	case errors.Is(err, ErrTooManyWaiting), errors.Is(err, sluice.ErrDeadline):
	case errors.Is(err, context.DeadlineExceeded):
		v.Err = errors.Join(sluice.ErrDeadline, err)
	default:
		v.Reason = sluice.ReasonStoreError
	}
	v.Delay = 0
}

// ending is the context in which charges are ended: that of the request, which may
// have been ended by then.
func ending(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

// cancel gives back what a request took that is not handled.
func (m *Middleware) cancel(r *http.Request, charges []sluice.Charge) {
	for _, c := range charges {
		if err := m.decider.Store().Cancel(ending(r), c); err != nil {
			m.o.OnError(r, err)
		}
	}
}

// release ends the leases.
func (m *Middleware) release(r *http.Request, charges []sluice.Charge, since time.Time) {
	for _, c := range charges {
		if c.Member == 0 {
			continue
		}
		if err := m.decider.Store().Release(ending(r), c, time.Since(since)); err != nil {
			m.o.OnError(r, err)
		}
	}
}

// settle takes back the charges of a request that does not count; leases, which
// are released, are none.
func (m *Middleware) settle(r *http.Request, charges []sluice.Charge) {
	for _, c := range charges {
		if c.Member != 0 {
			continue
		}
		if err := m.decider.Store().Settle(ending(r), c, 0); err != nil {
			m.o.OnError(r, err)
		}
	}
}
