package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// statusGone is what logs show for a request whose client went away, after nginx.
const statusGone = 499

// serveOther carries out a verdict that needs more than headers. What the gate said of it is
// the admission and err, and ctx is what it was given.
func (m *Middleware) serveOther(ctx context.Context, w http.ResponseWriter, r *http.Request, next http.Handler, v policy.Verdict, admission *gate.Admission, err error) {
	gone := isGone(r)
	if v.Err != nil && !(gone && v.Abandoned()) {
		m.o.OnError(r, v.Err)
	}
	if (v.Err != nil || err != nil) && gone {
		admission.Leave(ctx, policy.Outcome{Status: statusGone})
		w.WriteHeader(statusGone)
		return
	}
	m.headers.Set(w.Header(), &v)
	if err != nil {
		m.o.OnDenied(w, r, &v)
		return
	}
	r = passed(r, &v, m.decider.Reserved(r))
	if m.o.Context {
		r = r.WithContext(NewContext(r.Context(), &v))
	}
	if v.Degrade != nil {
		next = m.degraded(&v, next)
	}
	if len(v.Paced) > 0 {
		next = m.paced(&v, next)
	}
	if admission == nil {
		next.ServeHTTP(w, r)
		return
	}
	handle(ctx, w, r, next, &v, admission)
}

// isGone reports whether the client has gone away. A deadline is the server's own.
func isGone(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

// handle runs the handler and ends what the request holds, with what became of it.
func handle(ctx context.Context, w http.ResponseWriter, r *http.Request, next http.Handler, v *policy.Verdict, admission *gate.Admission) {
	if !admission.Settles() {
		defer admission.Leave(ctx, policy.Outcome{})
		next.ServeHTTP(w, r)
		return
	}
	record, w := newRecorder(w)
	var sent *countedBody
	if r.Body != nil && r.Body != http.NoBody && costsRequestBytes(v) {
		sent = &countedBody{ReadCloser: r.Body}
		r = r.WithContext(r.Context())
		r.Body = sent
	}
	panicked := true
	defer func() {
		o := policy.Outcome{Status: record.status, ResponseBytes: record.bytes, RequestBytes: sent.read(), Header: record.find}
		switch {
		case o.Status != 0:
		case panicked:
			o.Status = http.StatusInternalServerError
		default:
			o.Status = http.StatusOK
		}
		if r.Method == http.MethodHead {
			o.ResponseBytes = 0 // whatever the handler wrote
		}
		admission.Leave(ctx, o)
	}()
	next.ServeHTTP(w, r)
	panicked = false
}

// costsRequestBytes reports whether the size of the request's body is to be known.
func costsRequestBytes(v *policy.Verdict) bool {
	for i := range v.Results {
		if r := v.Results[i].Rule; r != nil && r.Cost.Source == policy.CostRequestBytes {
			return true
		}
	}
	return false
}

// countedBody counts what is read of a request's body.
type countedBody struct {
	io.ReadCloser
	n atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// read returns how much was read; a nil body is empty.
func (b *countedBody) read() int64 {
	if b == nil {
		return 0
	}
	return b.n.Load()
}
