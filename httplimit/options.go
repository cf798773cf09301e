package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// Options are the settings of a Middleware. The zero Options are the defaults.
type Options struct {
	// Headers are the settings of the headers that report limits to clients.
	// Default: the IETF draft's headers, without jitter.
	Headers HeaderOptions
	// OnDenied answers a request that is refused. The headers, Retry-After among them, are set already;
	// Status returns the status that fits. It must not keep the verdict. Default: WriteDenied, which
	// sends a problem document.
	OnDenied func(w http.ResponseWriter, r *http.Request, v *policy.Verdict)
	// OnDegraded answers a request that a rule degrades with an answer of its own: the verdict's
	// Degrade.WhenLimited. It must not keep the verdict. Default: WriteDegraded.
	OnDegraded func(w http.ResponseWriter, r *http.Request, v *policy.Verdict)
	// Fallback returns the handler of requests that a rule sends to its Upstream to degrade them. It
	// returns nil for an unknown Upstream. Then the request is passed on as usual, and OnError gets an
	// error. It is called for each such request. Default: every Upstream is unknown.
	Fallback func(upstream string) http.Handler
	// Gate carries the verdicts out. Edges that share a Gate share its waiting queues. It must have the
	// decider's store. It has its own MaxDelay, MaxWaiting and Counts, so do not set them here too; it
	// also has its own OnError. Default: a gate of the middleware's own.
	Gate *gate.Gate
	// MaxDelay is the longest time that a request waits when it is allowed after a delay. A request
	// that would wait longer is refused, and its charges are given back. Negative: no request waits.
	// Default: the MaxWait of the rule or decider; without one, 10 seconds.
	MaxDelay time.Duration
	// MaxWaiting is how many requests may wait at once, for all limits together; more are refused with
	// status 503. Each waiting request holds its connection and a goroutine. Default: as many as the
	// queues of the rules hold, and 1,024 for limits outside of rules.
	MaxWaiting int
	// Counts reports, by the status of the response, whether the request counts. So a limit can count
	// only failed attempts to log in, or only successes. All requests are charged before they are
	// handled; otherwise too many at once would pass. If a request does not count, its charge is given
	// back afterwards, as far as the limit's algorithm can: see sluice.Store.Settle. A handler that
	// panics has status 500 here, and a hijacked connection 101. It is for all limits; rules have a
	// setting of their own (policy.Rule.CountStatus). Default: all requests count.
	Counts func(status int) bool
	// Context lets handlers read the verdict by policy.FromContext, at the price of a copy
	// of the request. Default: they cannot.
	Context bool
	// OnVerdict is called once for each request, with the final verdict. The call is after the wait, if
	// there is one, and before the request is handled or refused. took is the time since the
	// decision began, without the wait. It is for metrics and logs; it must not keep or change the verdict, and must be
	// safe for concurrent use. Default: not called.
	OnVerdict func(r *http.Request, v *policy.Verdict, took time.Duration)
	// OnAnswer is called for each answer to a request with the cost CostModel, with the format of the API, such as
	// "openai-chat", or "unknown". The request may have ended. It must be safe for concurrent use. Default: not called.
	OnAnswer func(r *http.Request, format string, end AnswerEnd)
	// OnError gets the store's errors: in decisions, and when charges are canceled, settled or
	// released. It also gets the errors of WriteDenied and WriteDegraded, if OnDenied and OnDegraded
	// are the defaults. Only an error in a decision can make a request fail. It must be safe for
	// concurrent use. Default: errors are ignored here; errors of decisions are in the verdict.
	OnError func(r *http.Request, err error)
}

func (o *Options) complete(store sluice.Store) error {
	if o.OnError == nil {
		o.OnError = func(*http.Request, error) {}
	}
	if o.OnDenied == nil {
		o.OnDenied = reporting(WriteDenied, o.OnError)
	}
	if o.OnDegraded == nil {
		o.OnDegraded = reporting(WriteDegraded, o.OnError)
	}
	if o.Gate != nil {
		if o.MaxDelay != 0 || o.MaxWaiting != 0 || o.Counts != nil {
			return errors.New("httplimit: Options.Gate is given, and MaxDelay, MaxWaiting or Counts too, which are the gate's; give them to gate.New")
		}
		return nil
	}
	if o.MaxWaiting < 0 {
		return fmt.Errorf("httplimit: Options.MaxWaiting is %d; give 1 or more, or 0 for the default; to let none wait, give a negative MaxDelay", o.MaxWaiting)
	}
	own := gate.Options{MaxDelay: o.MaxDelay, MaxWaiting: o.MaxWaiting}
	if o.Counts != nil {
		own.Counts = func(outcome policy.Outcome) bool { return o.Counts(outcome.Status) }
	}
	own.OnError = func(ctx context.Context, err error) {
		r, _ := ctx.Value(requestKey{}).(*http.Request)
		o.OnError(r, err)
	}
	var err error
	o.Gate, err = gate.New(store, own)
	return err
}

// reporting returns a hook that calls write and reports its error.
func reporting(write func(http.ResponseWriter, *http.Request, *policy.Verdict) error, report func(*http.Request, error)) func(http.ResponseWriter, *http.Request, *policy.Verdict) {
	return func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
		if err := write(w, r, v); err != nil {
			report(r, err)
		}
	}
}
