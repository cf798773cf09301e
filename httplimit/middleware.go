package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// Middleware lets a Decider decide about each request, and carries the verdict out. It sets headers,
// lets the request wait, and refuses it or has it handled, perhaps degraded or marked. It is safe for
// concurrent use.
//
// A request that is allowed after a delay waits, but only until its context ends. When the client is
// gone, the request is not handled and its charges are given back. (Over HTTP/1 a server of net/http
// notices that only after the end of the request's body.) Leases of concurrency limits are released
// when the handler returns or panics. Costs that are known by then are settled.
type Middleware struct {
	decider *Decider
	o       Options
	headers *Headers
	gate    *gate.Gate
	flows   *gate.Flows
	room    bodyRoom // of bodies that rules have read ahead
}

// New returns a middleware that carries out the verdicts of d.
// The error names the option, and what to give.
func New(d *Decider, o Options) (*Middleware, error) {
	if d == nil {
		return nil, errors.New("httplimit: New has no Decider; make one with NewKeyDecider or NewPolicyDecider")
	}
	if err := o.complete(d.Store()); err != nil {
		return nil, err
	}
	headers, err := NewHeaders(o.Headers)
	if err != nil {
		return nil, err
	}
	flows, err := newFlows(d, &o)
	if err != nil {
		return nil, err
	}
	return &Middleware{decider: d, o: o, headers: headers, gate: o.Gate, flows: flows}, nil
}

// Waiting returns how many requests wait now, in all handlers that m wraps and in other edges of its
// gate.
func (m *Middleware) Waiting() int { return m.gate.Waiting() }

// Gate returns the gate that carries the verdicts out.
func (m *Middleware) Gate() *gate.Gate { return m.gate }

// Wrap returns a handler that limits the requests to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

func (m *Middleware) serve(w http.ResponseWriter, came *http.Request, next http.Handler) {
	var began time.Time
	if m.o.OnVerdict != nil {
		began = time.Now()
	}
	p := m.decider.inForce()
	r := came
	var body *modelBody
	if p.ReadsModels() && hasBody(came) {
		r = came.WithContext(came.Context()) // the server must find its own body in the request that came
		body = keepBody(w, r, &m.room)
		defer body.release()
	}
	r = endToEnd(r, p.Policy)
	v := m.decider.decide(r, p)
	ctx, e, err := r.Context(), ending{}, v.Refused
	decided := err == nil
	if decided {
		if m.gate.Awaits(&v) {
			r, e.pending = withPending(r)
			ctx = r.Context()
		} else if v.Delay > 0 {
			ctx = requestContext{ctx, r}
		}
		e.admission, err = m.gate.Enter(ctx, &v)
	}
	if m.o.OnVerdict != nil {
		m.observe(r, v, time.Since(began)-v.Waited)
	}
	switch {
	case decided && (err != nil || e.admission != nil || v.Err != nil) && m.isOver(r, &v):
		e.gone, next = true, http.HandlerFunc(writeGone)
	case err != nil:
		m.deny(w, r, v)
		return
	default:
		m.headers.Set(w.Header(), &v)
		r = passed(came, r, &v, m.decider.reserved(r, p.Policy))
		if e.pending != nil && p.ReadsModels() {
			if e.model = newModelAnswer(body, &v); e.model != nil {
				e.pending.model, e.answered = e.model, m.o.OnAnswer
				r = e.model.request(r, body)
			}
		}
		if m.o.Context || v.Degrade != nil || len(v.Paced) > 0 {
			r, next = m.prepare(r, next, v)
		}
	}
	if e.admission == nil {
		next.ServeHTTP(w, r)
	} else {
		e.handle(ctx, w, r, next, &v)
	}
	keepForm(came, r)
}

// observe reports a copy of the final verdict, so that most verdicts stay on the stack.
func (m *Middleware) observe(r *http.Request, v policy.Verdict, took time.Duration) {
	m.o.OnVerdict(r, &v, took)
}

// keepForm gives a request the form that was read from its copy, because the server removes the files of the
// original request's form.
func keepForm(came, r *http.Request) {
	if came.MultipartForm == nil {
		came.MultipartForm = r.MultipartForm
	}
}

// requestContext is a context with its request: errors of the gate are reported with the
// request.
type requestContext struct {
	context.Context //nolint:containedctx // it is one
	r               *http.Request
}

type requestKey struct{}

func (c requestContext) Value(key any) any {
	if _, ok := key.(requestKey); ok {
		return c.r
	}
	return c.Context.Value(key)
}

// statusGone is what logs show for a request whose client went away, after nginx.
const statusGone = 499

// isOver passes the store's error to OnError, and reports whether the client has left. A deadline is the server's own.
// When the client has left, nothing is handled, and charges are given back as far as possible.
func (m *Middleware) isOver(r *http.Request, v *policy.Verdict) bool {
	gone := errors.Is(r.Context().Err(), context.Canceled)
	if v.Err != nil && (!gone || !v.Abandoned()) {
		m.o.OnError(r, v.Err)
	}
	return gone
}

func writeGone(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(statusGone) }

// deny refuses a request. It gets a copy of the verdict, so that most verdicts stay on the stack.
func (m *Middleware) deny(w http.ResponseWriter, r *http.Request, v policy.Verdict) {
	m.headers.Set(w.Header(), &v)
	m.o.OnDenied(w, r, &v)
}

// prepare returns the request and the handler for a verdict that handlers can read, or that degrades or paces. It gets a
// copy of the verdict.
func (m *Middleware) prepare(r *http.Request, next http.Handler, v policy.Verdict) (*http.Request, http.Handler) {
	if m.o.Context {
		r = r.WithContext(policy.NewContext(r.Context(), &v))
	}
	if v.Degrade != nil {
		next = m.degraded(&v, next)
	}
	if len(v.Paced) > 0 {
		next = m.paced(&v, next)
	}
	return r, next
}

// ending is the end of a request that the gate has admitted.
type ending struct {
	admission *gate.Admission
	pending   *Pending // nil if the outcome does not matter
	record    *recorder
	sent      *countedBody
	gone      bool // the client has left, and nothing was handled
	returned  bool // the handler did not panic
	model     *modelAnswer
	answered  func(r *http.Request, format string, end AnswerEnd)
}

// handle runs the handler, and ends the admission with the outcome.
func (e *ending) handle(ctx context.Context, w http.ResponseWriter, r *http.Request, next http.Handler, v *policy.Verdict) {
	if !e.gone && e.admission.Settles() {
		e.record, w = newRecorder(ctx, w, e.pending)
		e.record.model = e.model
		if r.Body != nil && r.Body != http.NoBody && costsRequestBytes(v) {
			e.sent = &countedBody{ReadCloser: r.Body}
			r.Body = e.sent
		}
	}
	defer func() { e.admission.Leave(ctx, e.outcome(r)) }()
	next.ServeHTTP(w, r)
	e.model.close()
	e.returned = true
}

// outcome returns the outcome of a request.
func (e *ending) outcome(r *http.Request) policy.Outcome {
	switch {
	case e.gone:
		return policy.Outcome{Status: statusGone}
	case e.record == nil:
		return policy.Outcome{Running: e.pending != nil && e.pending.running}
	}
	o := e.record.outcome(!e.returned)
	o.RequestBytes = e.sent.read()
	if r.Method == http.MethodHead {
		o.ResponseBytes, o.Partial = 0, false // whatever the handler wrote
	}
	if e.model != nil {
		if end := e.model.settle(&o); e.answered != nil {
			e.answered(r, e.model.read.format.String(), end)
		}
	}
	return o
}

// costsRequestBytes reports whether a cost depends on the size of the request's body.
func costsRequestBytes(v *policy.Verdict) bool {
	for i := range v.Results {
		if r := v.Results[i].Rule; r != nil && r.Cost.Source == policy.CostRequestBytes {
			return true
		}
	}
	return false
}

// countedBody counts the bytes that are read of a request's body.
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
