package grpclimit

import (
	"context"
	"sync"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// newMessages returns the side that decides about messages, or nil if they are not limited.
func newMessages(at string, d *Decider, u uses, o gate.Options, h hooks) (*side, error) {
	if d == nil {
		return nil, nil //nolint:nilnil // not limited
	}
	return newSide(at, d, u|onMessages, nil, o, h)
}

// ending is the end of a stream whose message was denied: the error that all later calls of its methods
// return.
type ending struct {
	cancel context.CancelCauseFunc

	mu  sync.Mutex
	err error
}

// end ends the stream, and keeps the first error.
func (e *ending) end(err error) {
	e.mu.Lock()
	if e.err == nil {
		e.err = err
	}
	e.mu.Unlock()
	e.cancel(err)
}

// denied returns why the stream was ended, or nil.
func (e *ending) denied() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// message decides about a message that a server receives or sends, and waits as the verdict demands. It
// returns the error of a denied message.
func (s *side) message(ctx context.Context, call *Call, message any) error {
	c := &Call{Method: call.Method, Message: message, ctx: ctx}
	e := s.enter(c, 0)
	if err := s.conclude(c, e); err != nil {
		return err
	}
	if e.denied {
		return s.denied(c, &e.verdict)
	}
	e.admission.Leave(callContext{ctx, c}, policy.Outcome{})
	return nil
}
