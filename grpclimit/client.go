package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// ClientOptions are the settings of a Client. The zero ClientOptions are the defaults.
type ClientOptions struct {
	// Sent decides about each message that the client sends on a stream, and Received about each message
	// that it receives. A message waits as a call does. A denied message ends the stream. Messages of
	// unary calls do not count. Default: messages are not limited.
	Sent, Received *Decider
	// MaxDelay is the longest time that a call or message waits for its turn. A call that would wait
	// longer, or beyond its deadline, fails at once. Negative: no call waits, so a call without room
	// fails. Default: as long as the call's context allows; a minute for a context without a deadline.
	MaxDelay time.Duration
	// MaxWaiting is how many calls may wait at once; further calls fail. Messages that are sent have a
	// bound of the same size, and so have messages that are received. Default: 1,024, or as many as the
	// queues of the rules hold.
	MaxWaiting int
	// OnDenied returns the error of a call or message that fails. It must not keep the verdict. Default,
	// also if it returns nil: Status.
	OnDenied func(c *Call, v *policy.Verdict) error
	// Counts reports, by the code of the result, whether a call counts. If it does not, its charge is
	// given back. Default: all calls count.
	Counts func(code codes.Code) bool
	// OnVerdict is called once for each call and each limited message, with the final verdict. The call
	// is after the wait. took is how long the last decision took. It must not keep or change the
	// verdict, and must be safe for concurrent use. Default: not called.
	OnVerdict func(c *Call, v *policy.Verdict, took time.Duration)
	// OnError gets the store's errors; see ServerOptions.OnError.
	OnError func(c *Call, err error)
}

const defaultDelay = time.Minute

// Client limits the calls of a grpc.ClientConn, so that they keep the limits of a service. Unary and
// Stream are its interceptors; Options installs both. It is safe for concurrent use.
//
// A call waits until its limits let it pass. Calls that wait for a bucket or a queue pass in their
// order. For a window or a log, a call tries again when the window has room, in no particular order.
// Leases of concurrency limits are held until the call has ended; for a stream, until grpc-go ends it.
// A call that a retry policy repeats counts once.
type Client struct {
	calls    *side
	sent     *side // nil if the messages are not limited
	received *side
	o        ClientOptions
	retrying chan struct{} // bounds the calls that wait outside of the gate
}

// NewClient returns a client's interceptors, which carry out the verdicts of d. The error names each rule
// of the policy that a client cannot express.
func NewClient(d *Decider, o ClientOptions) (*Client, error) {
	if d == nil {
		return nil, errors.New("grpclimit: NewClient has no Decider; make one with NewKeyDecider or NewPolicyDecider")
	}
	if err := checkGate("ClientOptions", nil, o.MaxDelay, o.MaxWaiting, o.Counts != nil); err != nil {
		return nil, err
	}
	retrying := o.MaxWaiting
	if retrying == 0 {
		retrying = 1024
	}
	c := &Client{o: o, retrying: make(chan struct{}, retrying)}
	waiting := gate.Options{MaxDelay: o.MaxDelay, MaxWaiting: o.MaxWaiting}
	h := hooks{onVerdict: o.OnVerdict, onError: o.OnError, onDenied: o.OnDenied}
	var err error
	if c.sent, err = newMessages("ClientOptions.Sent", o.Sent, onClient, waiting, h); err != nil {
		return nil, err
	}
	if c.received, err = newMessages("ClientOptions.Received", o.Received, onClient, waiting, h); err != nil {
		return nil, err
	}
	waiting.Counts = counting(o.Counts)
	if c.calls, err = newSide("NewClient", d, onClient, nil, waiting, h); err != nil {
		return nil, err
	}
	return c, nil
}

// Options returns the options that install both interceptors, after the interceptors of earlier options.
func (c *Client) Options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream)}
}

// Unary is a grpc.UnaryClientInterceptor.
// The error is the status of a denial, or the error of the call.
func (c *Client) Unary(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	call := &Call{Method: method, Message: request, Target: target(conn), ctx: ctx, outgoing: true}
	a, err := c.admit(c.calls, call)
	if err != nil {
		return err
	}
	return run(call, a, nil, func() error { return invoke(ctx, method, request, answer, conn, options...) })
}

// Stream is a grpc.StreamClientInterceptor. It decides when a stream begins, and about its messages.
// The error is the status of a denial, or the error of the call.
func (c *Client) Stream(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	call := &Call{Method: method, Target: target(conn), ctx: ctx, outgoing: true}
	a, err := c.admit(c.calls, call)
	if err != nil {
		return nil, err
	}
	var limited *clientStream
	if c.sent != nil || c.received != nil {
		limited = &clientStream{client: c, call: call}
		limited.ctx, limited.cancel = context.WithCancelCause(ctx)
	}
	ended := func(err error) {
		a.Leave(callContext{ctx, call}, outcomeOf(status.Code(err)))
		if limited != nil {
			limited.cancel(nil)
		}
	}
	if limited != nil {
		ctx = limited.ctx
	}
	if a != nil || limited != nil {
		options = append(options[:len(options):len(options)], grpc.OnFinish(ended))
	}
	stream, err := streamer(ctx, d, conn, method, options...)
	if err != nil {
		ended(err)
		return nil, err
	}
	if limited == nil {
		return stream, nil
	}
	limited.ClientStream = stream
	return limited, nil
}

// target returns the target of a connection, which tests may leave out.
func target(conn *grpc.ClientConn) string {
	if conn == nil {
		return ""
	}
	return conn.Target()
}

// admit decides about a call or message, and waits until its limits let it pass.
func (c *Client) admit(s *side, call *Call) (*gate.Admission, error) {
	began, until := time.Now(), c.deadline(call.ctx)
	waits := false
	for {
		left := time.Until(until)
		if c.o.MaxDelay < 0 || left <= 0 {
			left = sluice.NoWait
		}
		e := s.enter(call, left)
		wait := denial.RetryAfter(&e.verdict)
		if e.denied && wait < left && canWait(s.decider, &e.verdict, wait, time.Since(began)) && c.await(call.ctx, wait, &waits) {
			continue
		}
		if waits {
			<-c.retrying
		}
		if err := s.conclude(call, e); err != nil {
			return nil, err
		}
		if e.denied {
			return nil, s.denied(call, &e.verdict)
		}
		return e.admission, nil
	}
}

// deadline returns until when a call may wait.
func (c *Client) deadline(ctx context.Context) time.Time {
	most := c.o.MaxDelay
	if most <= 0 {
		most = defaultDelay
	}
	until, bounded := ctx.Deadline()
	if latest := time.Now().Add(most); !bounded || c.o.MaxDelay > 0 && latest.Before(until) {
		return latest
	}
	return until
}

// canWait reports whether a denied call may try again after a wait: it may pass then, and neither the
// decider nor a rule that denies it has a MaxWait that is shorter. waited is how long it has waited.
func canWait(d *Decider, v *policy.Verdict, wait, waited time.Duration) bool {
	if v.Refused != nil || v.Err != nil || wait <= 0 || v.Reason != sluice.ReasonLimited && v.Reason != sluice.ReasonTooSoon {
		return false
	}
	accepts := func(most time.Duration) bool { return most == 0 || waited+wait <= most }
	for i := range v.Results {
		m := &v.Results[i]
		if m.Role == policy.RoleEnforced && !m.Decision.Allowed && !accepts(m.Rule.MaxWait) {
			return false
		}
	}
	return accepts(d.o.MaxWait)
}

// await waits before another decision. It reports false if the call must not wait: too many do, or its
// context has ended. waits says that the call is counted among the waiting calls.
func (c *Client) await(ctx context.Context, wait time.Duration, waits *bool) bool {
	if !*waits {
		select {
		case c.retrying <- struct{}{}:
			*waits = true
		default:
			return false
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// AtRate returns the options of a client connection whose calls keep a rate such as "50/s", in a token
// bucket, over a memory store of its own. Calls wait for their turn:
//
//	limit, err := grpclimit.AtRate("50/s")
//	…
//	conn, err := grpc.NewClient(target, append(limit, credentials)...)
//
// The error reports a rate that is not one.
func AtRate(rate string) ([]grpc.DialOption, error) {
	d, err := atRate("AtRate", "calls", rate, policy.Constant("calls"))
	if err != nil {
		return nil, err
	}
	c, err := NewClient(d, ClientOptions{})
	if err != nil {
		return nil, err
	}
	return c.Options(), nil
}
