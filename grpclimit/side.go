package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// side decides about calls, or about the messages of streams, and carries out the verdicts. Servers and
// clients share it.
type side struct {
	hooks
	decider *Decider
	gate    *gate.Gate
}

// hooks are the functions of a program that get verdicts and errors, and make the errors of denials.
type hooks struct {
	onVerdict func(c *Call, v *policy.Verdict, took time.Duration)
	onError   func(c *Call, err error)
	onDenied  func(c *Call, v *policy.Verdict) error
	domain    string // of ErrorInfo
	jitter    time.Duration
}

// denied returns the error of a denial.
func (h *hooks) denied(c *Call, v *policy.Verdict) error {
	if h.onDenied != nil {
		if err := h.onDenied(c, v); err != nil {
			return err // without an error, the call would end well
		}
	}
	return statusAfter(c, v, h.delay(), h.domain).Err()
}

// delay returns a random time to add to a wait.
func (h *hooks) delay() time.Duration {
	if h.jitter == 0 {
		return 0
	}
	return rand.N(h.jitter + 1)
}

// newSide returns a side for a use of a decider. It has a gate of its own, unless one is given. at is
// the function or field that got the decider.
func newSide(at string, d *Decider, u uses, g *gate.Gate, o gate.Options, h hooks) (*side, error) {
	if err := d.use(u, at); err != nil {
		return nil, err
	}
	if h.onError == nil {
		h.onError = func(*Call, error) {}
	}
	s := &side{hooks: h, decider: d, gate: g}
	if g != nil {
		return s, nil
	}
	o.OnError = func(ctx context.Context, err error) {
		c, _ := ctx.Value(callKey{}).(*Call)
		s.onError(c, err)
	}
	var err error
	if s.gate, err = gate.New(d.Store(), o); err != nil {
		return nil, err
	}
	return s, nil
}

// checkGate returns an error for settings that belong to a gate, if a gate is given too.
func checkGate(field string, g *gate.Gate, maxDelay time.Duration, maxWaiting int, counts bool) error {
	switch {
	case g != nil && (maxDelay != 0 || maxWaiting != 0 || counts):
		return fmt.Errorf("grpclimit: %s.Gate is given, and MaxDelay, MaxWaiting or Counts too, which are the gate's; give them to gate.New", field)
	case maxWaiting < 0:
		return fmt.Errorf("grpclimit: %s.MaxWaiting is %d; give 1 or more, or 0 for the default; to let none wait, give a negative MaxDelay", field, maxWaiting)
	}
	return nil
}

// counting returns a gate's Counts for a choice by code.
func counting(counts func(codes.Code) bool) func(policy.Outcome) bool {
	if counts == nil {
		return nil
	}
	return func(o policy.Outcome) bool {
		text, _ := o.Header(statusHeader)
		code, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return true // another edge of the gate has no codes
		}
		return counts(codes.Code(code))
	}
}

type callKey struct{}

// callContext is a context with its call: errors of the gate are reported with the call.
type callContext struct {
	context.Context //nolint:containedctx // it is one
	call            *Call
}

func (c callContext) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c.call
	}
	return c.Context.Value(key)
}

// entered is a decision about a call, carried out up to the moment when the call may be handled.
type entered struct {
	verdict   policy.Verdict
	took      time.Duration // to decide
	admission *gate.Admission
	denied    bool
}

// enter decides about a call, and waits as the verdict demands. most is the longest delay that the
// caller accepts. The caller must conclude what enter returns.
func (s *side) enter(c *Call, most time.Duration) *entered {
	var began time.Time
	if s.onVerdict != nil {
		began = time.Now()
	}
	e := &entered{verdict: s.decider.decide(c, most)}
	if s.onVerdict != nil {
		e.took = time.Since(began)
	}
	if e.verdict.Refused != nil {
		e.denied = true
		return e
	}
	var err error
	e.admission, err = s.gate.Enter(callContext{c.ctx, c}, &e.verdict)
	e.denied = err != nil
	return e
}

// conclude reports a decision that was carried out. It returns an error if the caller has gone away meanwhile.
func (s *side) conclude(c *Call, e *entered) error {
	v := &e.verdict
	if s.onVerdict != nil {
		s.onVerdict(c, v, e.took)
	}
	gone := errors.Is(c.ctx.Err(), context.Canceled)
	if v.Err != nil && (!gone || !v.Abandoned()) {
		s.onError(c, v.Err)
	}
	if !gone || v.Err == nil && !e.denied && e.admission == nil {
		return nil
	}
	// Nothing was handled, so nothing is charged that can be given back.
	e.admission.Leave(callContext{c.ctx, c}, outcomeOf(codes.Canceled))
	return status.FromContextError(context.Canceled).Err()
}

// resultOf returns the code with which grpc-go ends a call whose handler returns err.
func resultOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

// run handles a call, and ends its admission with the outcome, also if the handler panics.
func run(c *Call, a *gate.Admission, r *recorder, handle func() error) (err error) {
	if a == nil {
		return handle()
	}
	returned := false
	defer func() {
		o := outcomeOf(codes.Internal) // of a panic
		if returned {
			o = outcomeOf(resultOf(err))
		}
		// The end of the call, which its client chooses, may be what made the handler return.
		o.Unknown = !c.outgoing && c.ctx.Err() != nil
		r.fill(&o)
		a.Leave(callContext{c.ctx, c}, o)
	}()
	err = handle()
	returned = true
	return err
}
