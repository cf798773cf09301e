package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/retry"
	"github.com/sluicehq/sluice/policy"
)

// Why a request is refused, for errors.Is. Other causes are sluice.ErrDeadline (the wait would last
// longer than the context) and sluice.ErrLeaseLost (while the request waited). The cause can also be
// the store's own error, or context.Canceled (the client left).
var (
	// ErrDenied says that the verdict itself is a denial.
	ErrDenied = errors.New("gate: the verdict is a denial")
	// ErrTooLate says that the turn of the request comes later than it may wait.
	ErrTooLate = errors.New("gate: the wait is longer than requests may wait")
	// ErrQueueFull says that the rule's waiting queue is full.
	ErrQueueFull = errors.New("gate: the queue is full")
	// ErrKeyQueueFull says that the key's part of the rule's waiting queue is full.
	ErrKeyQueueFull = errors.New("gate: the queue is full of the key's requests")
	// ErrTooManyWaiting says that too many requests wait in this process, by all rules together.
	ErrTooManyWaiting = errors.New("gate: too many requests are waiting")
)

// Error reports the limit for which a request could not wait, and why.
type Error struct {
	// Rule is the name of the rule, empty for a limit without one.
	Rule string
	// Limit is the name of the limit.
	Limit string
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	why := strings.TrimPrefix(e.Err.Error(), "gate: ")
	if e.Rule == "" {
		return fmt.Sprintf("gate: limit %q: %s", e.Limit, why)
	}
	return fmt.Sprintf("gate: rule %q: %s", e.Rule, why)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Gate carries out verdicts whose charges are in one store. Edges that share a Gate share its
// waiting queues. It is safe for concurrent use. It starts no goroutine: a request waits in its
// own, and leases that could not be ended are ended later by timers.
type Gate struct {
	store     sluice.Store
	o         Options
	counts    counts
	queues    waitingQueues
	pressures pressures
	ends      retry.Later // of leases
}

// New returns a gate for verdicts that were decided over store. The store may be nil if
// the verdicts never hold charges. The error names the option that is out of its range.
func New(store sluice.Store, o Options) (*Gate, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	g := &Gate{store: store, o: o, ends: retry.Later{Most: mostEnds, First: firstEnd, Last: lastEnd}}
	g.counts.init(o.MaxWaiting)
	g.queues.init()
	g.pressures.init(&g.o)
	return g, nil
}

// SetShare replaces Options.Share. It returns an error, and changes nothing, for a value that is not a share.
func (g *Gate) SetShare(share sluice.Share) error {
	if err := share.Check(); err != nil {
		return fmt.Errorf("gate: SetShare: %w", err)
	}
	g.pressures.setShare(share)
	return nil
}

// Waiting returns how many requests wait now.
func (g *Gate) Waiting() int { return g.counts.waiting() }

// Pressure returns the demand for a rule's limits divided by what they give, over the window. 1 means
// that demand equals the limit, 2 that it is twice the limit. Denied requests are demand too. With
// several limits, Pressure is the highest of their pressures. For a concurrency limit, demand is the
// units in flight and refused at one time. For a rule with many keys, Pressure is the mean over the
// active keys; it distinguishes up to some 100,000 of them. It is zero for a rule that no request
// matched. It fits policy.Options.Pressure.
func (g *Gate) Pressure(rule string) float64 { return g.pressures.of(rule) }

// Forget drops the pressure on rules that are gone, such as after a policy is replaced. Without it,
// pressure is dropped only for rules without requests for two windows, and only when there are many
// rules.
func (g *Gate) Forget(gone func(rule string) bool) { g.pressures.forget(gone) }

// Observe counts a verdict for the pressure on its rules. It is for verdicts that another program
// carries out; Enter counts the verdicts that it is given.
func (g *Gate) Observe(v *policy.Verdict) { g.survey(v) }

// Awaits reports whether the outcome of a request matters to its verdict when the request ends: there are charges to
// settle, or leases.
func (g *Gate) Awaits(v *policy.Verdict) bool {
	if g.o.Counts != nil {
		return true
	}
	for i := range v.Results {
		if r := &v.Results[i]; r.Charged() && (r.Request.Member != 0 || settles(r)) {
			return true
		}
	}
	return false
}

// Enter carries a verdict out up to the moment when the request may be handled. It waits for the
// verdict's delays and for the leases of concurrency limits, and holds the leases from then on. The
// caller must end the admission with Leave; it is nil if there is nothing to end.
//
// After an error the request must not be handled, and its charges have been given back. The error
// is ErrDenied for a verdict that denies. Otherwise it is an *Error, also in Verdict.Refused, and
// the verdict has become a denial. If ctx has ended, the error wraps its cause.
func (g *Gate) Enter(ctx context.Context, v *policy.Verdict) (*Admission, error) {
	work := g.survey(v)
	if !v.Allowed() {
		if work.leases {
			g.hold(ctx, v).cancel(ctx) // rules in shadow are charged even then
		}
		return nil, ErrDenied
	}
	if !work.delays && !work.leases && !work.settles && g.o.Counts == nil {
		return nil, nil //nolint:nilnil // a nil Admission is valid: nothing to end
	}
	a := &Admission{gate: g, results: v.Results}
	if work.leases {
		a.leases = g.hold(ctx, v)
	}
	if work.delays {
		began := time.Now()
		blocked := g.wait(ctx, v)
		v.Waited = time.Since(began)
		if blocked != nil {
			a.undo(ctx)
			return nil, blocked.deny(v)
		}
		v.Delay = 0
	}
	a.leases.begin()
	return a, nil
}

// work is what the gate must do for a verdict.
type work struct{ delays, leases, settles bool }

// survey returns what a verdict needs, and counts it for the pressure on its rules.
func (g *Gate) survey(v *policy.Verdict) (w work) {
	var now time.Duration
	for i := range v.Results {
		r := &v.Results[i]
		if r.Rule != nil && r.Rule.Name != "" && r.Role != policy.RoleCandidate && r.Listed == policy.NotListed {
			if now == 0 {
				now = g.pressures.now()
			}
			g.pressures.observe(r, now, v.Err == nil)
		}
		w.delays = w.delays || isDelayed(r)
		if r.Charged() {
			w.leases = w.leases || r.IsLease()
			w.settles = w.settles || settles(r)
		}
	}
	return w
}

// report reports an error that makes no request fail.
func (g *Gate) report(ctx context.Context, err error) {
	if err != nil {
		g.o.OnError(ctx, err)
	}
}
