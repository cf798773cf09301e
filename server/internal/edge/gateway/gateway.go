// Package gateway decides about the requests that gateways report before they pass them on. The edges for Envoy's
// external authorization, forward-auth and HAProxy translate their protocols to it.
//
// A delay is carried out before the answer. Only the gateway sees the end of a request and its response. So leases are
// given back at once, and costs that depend on a response stay as estimated.
package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// Options configure a Decider. All functions must be safe for concurrent use.
type Options struct {
	// Decider decides about requests. Required.
	Decider *httplimit.Decider
	// Gate carries out delays. It must have the decider's store. Required.
	Gate *gate.Gate
	// Headers set the rate-limit headers of answers. Default: the IETF's.
	Headers *httplimit.Headers
	// MethodOverride accepts requests with headers that replace their method: see httplimit.Report.
	MethodOverride bool
	// OnVerdict is called once for each request, with the final verdict and the time since the decision began, without
	// the wait. It must not keep or change the verdict. Optional.
	OnVerdict func(v *policy.Verdict, took time.Duration)
	// OnError gets the store's errors. Optional.
	OnError func(error)
	// AnswerFailed is called with the reason why the answer of a rule cannot be sent. Optional.
	AnswerFailed func(error)
	// Unusable is called with the reason why a message of a gateway got no decision. Many messages can have the
	// same reason. Optional.
	Unusable func(reason string)
}

// Decider decides about reported requests. Edges call Admit. It is safe for concurrent use.
type Decider struct {
	*httplimit.Decider
	o Options
}

// New returns a decider.
func New(o Options) (*Decider, error) {
	if o.Decider == nil || o.Gate == nil {
		return nil, errors.New("gateway: Decider and Gate are required")
	}
	if o.Headers == nil {
		h, err := httplimit.NewHeaders(httplimit.HeaderOptions{})
		if err != nil {
			return nil, err
		}
		o.Headers = h
	}
	if o.OnVerdict == nil {
		o.OnVerdict = func(*policy.Verdict, time.Duration) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.AnswerFailed == nil {
		o.AnswerFailed = func(error) {}
	}
	if o.Unusable == nil {
		o.Unusable = func(string) {}
	}
	return &Decider{o.Decider, o}, nil
}

// Admit decides about a reported request, and carries the verdict out as far as a gateway lets it. It returns the
// request in the form of net/http. The function decided, unless it is nil, is called when the request only waits.
func (d *Decider) Admit(ctx context.Context, q *httplimit.Report, decided func()) (r *http.Request, v *policy.Verdict, denied bool) {
	q.MethodOverride = d.o.MethodOverride
	began := time.Now()
	r, verdict := d.DecideReport(ctx, q)
	if decided != nil {
		decided()
	}
	v = &verdict
	denied = v.Refused != nil
	if !denied {
		admission, err := d.o.Gate.Enter(ctx, v)
		denied = err != nil
		// Only the gateway sees the response: the request counts whatever its status, and estimates stay charged.
		admission.Leave(ctx, policy.Outcome{Unknown: true, RequestBytes: max(0, r.ContentLength)})
	}
	d.o.OnVerdict(v, time.Since(began)-v.Waited)
	if v.Err != nil && !v.Abandoned() {
		d.o.OnError(v.Err)
	}
	return r, v, denied
}

// Unusable reports why a message of a gateway got no decision.
func (d *Decider) Unusable(reason string) { d.o.Unusable(reason) }

// SetLimits sets the rate-limit headers of an answer.
func (d *Decider) SetLimits(h http.Header, v *policy.Verdict) { d.o.Headers.Set(h, v) }

// WriteDenied writes the answer to a client whose request is denied.
// It has a status of HTTP for calls of gRPC too, because gateways decide by it.
func (d *Decider) WriteDenied(w http.ResponseWriter, v *policy.Verdict) {
	d.SetLimits(w.Header(), v)
	d.report(httplimit.WriteDenied(w, nil, v))
}

// WriteDegraded writes the answer to a client whose request is degraded to an answer, such as a redirect to a waiting
// room.
func (d *Decider) WriteDegraded(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
	d.SetLimits(w.Header(), v)
	d.report(httplimit.WriteDegraded(w, r, v))
}

func (d *Decider) report(err error) {
	if err != nil {
		d.o.AnswerFailed(err)
	}
}

// Answer keeps an answer to a client, because gateways get it in parts.
type Answer struct {
	Status int
	Body   []byte
	header http.Header
}

// NewAnswer returns an empty answer with status 200.
func NewAnswer() *Answer { return &Answer{Status: http.StatusOK, header: make(http.Header)} }

var _ http.ResponseWriter = (*Answer)(nil)

// Header returns the headers of the answer.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader keeps the status.
func (a *Answer) WriteHeader(status int) { a.Status = status }

// Write keeps the body.
func (a *Answer) Write(p []byte) (int, error) {
	a.Body = append(a.Body, p...)
	return len(p), nil
}
