package httplimit

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/policy"
)

// Options are the settings of a Middleware. The zero Options are the defaults.
type Options struct {
	// Headers are the settings of the headers that tell clients their limits.
	// Default: those of the IETF draft, without jitter.
	Headers HeaderOptions
	// OnDenied answers a request that is refused. The headers, Retry-After among
	// them, are set already; Status says which status fits. It must not keep the
	// verdict. Default: WriteDenied, which sends a problem document.
	OnDenied func(w http.ResponseWriter, r *http.Request, v *policy.Verdict)
	// MaxDelay is the longest time that a request waits when it is allowed after a
	// delay. One that would wait longer is refused, and what it took is given back.
	// Default: 10 seconds. Negative: none waits.
	MaxDelay time.Duration
	// MaxWaiting is how many requests wait at once; more are refused with status
	// 503. Each holds its connection and a goroutine meanwhile. Default: 1,024.
	MaxWaiting int
	// Counts says by the status of the response whether the request counts: so only
	// failed attempts to log in, or only successes, use up a limit. All requests are
	// charged before they are handled, or too many at once would pass; the charge of those that do not
	// count is taken back afterwards, as far as the limit's algorithm can: see sluice.Store.Settle.
	// A handler that panics has status 500 here, and a hijacked connection 101. Default: all count.
	Counts func(status int) bool
	// Context lets handlers read the verdict by FromContext, at the price of a copy
	// of the request. Default: they cannot.
	Context bool
	// OnError is told of errors of the store, of those while charges are canceled,
	// settled or released too. No request fails for the latter. It must be safe for
	// concurrent use. Default: errors are ignored here; those of decisions are in the verdict.
	OnError func(r *http.Request, err error)
}

const (
	defaultDelay   = 10 * time.Second
	defaultWaiting = 1024
)

func (o *Options) complete() error {
	if o.MaxDelay == 0 {
		o.MaxDelay = defaultDelay
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = defaultWaiting
	}
	if o.MaxWaiting < 0 {
		return fmt.Errorf("httplimit: Options.MaxWaiting is %d; give 1 or more, or 0 for the default; to let none wait, give a negative MaxDelay", o.MaxWaiting)
	}
	if o.OnDenied == nil {
		o.OnDenied = WriteDenied
	}
	if o.OnError == nil {
		o.OnError = func(*http.Request, error) {}
	}
	return nil
}
