package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// ServerOptions are the settings of a Server. The zero ServerOptions are the defaults.
type ServerOptions struct {
	// Received decides about each message that the server receives on a stream, and Sent about each
	// message that it sends. A message waits if a limit delays it, such as a leaky bucket or a token
	// bucket with a MaxWait; flow control then slows the sender down. A denied message ends the stream.
	// Messages of unary calls do not count. Default: messages are not limited.
	Received, Sent *Decider
	// Headers are the settings of the metadata that reports limits to clients: "ratelimit-policy" and
	// "ratelimit", and "retry-after" for a denial. Default: the IETF draft's fields, without jitter.
	Headers httplimit.HeaderOptions
	// OnDenied returns the error of a call or message that is refused. It must not keep the verdict.
	// Default, also if it returns nil: Status, with ErrorInfo if there is an ErrorDomain.
	OnDenied func(c *Call, v *policy.Verdict) error
	// ErrorDomain is the domain of the ErrorInfo in a status, such as "shop.example.com". Default: a
	// status has no ErrorInfo.
	ErrorDomain string
	// MaxPushback is the longest wait after which the retry policy of a client should repeat a denied
	// call. The wait is in the trailer grpc-retry-pushback-ms. After a longer wait, or if waiting is
	// useless, the trailer makes the retry policy give up. Negative: the trailer is not sent. Default:
	// 10 seconds.
	MaxPushback time.Duration
	// Gate carries the verdicts about calls out. Edges that share a Gate share its waiting queues. It
	// must have the decider's store. It has its own MaxDelay, MaxWaiting and Counts, so do not set them
	// here too; it also has its own OnError. Default: a gate of the server's own.
	Gate *gate.Gate
	// MaxDelay is the longest time that a call waits when it is allowed after a delay. A call that would
	// wait longer, or beyond its deadline, is refused at once. Negative: no call waits. Default: the
	// MaxWait of the rule or decider; without one, 10 seconds.
	MaxDelay time.Duration
	// MaxWaiting is how many calls may wait at once, for all limits together; more are refused with
	// UNAVAILABLE. Messages that are received have a bound of the same size, and so have messages that
	// are sent. Default: as many as the queues of the rules hold, and 1,024 for limits outside of rules.
	MaxWaiting int
	// Counts reports, by the code of the result, whether a call counts. So a limit can count only
	// failures, or only successes. All calls are charged before they are handled; otherwise too many at
	// once would pass. If a call does not count, its charge is given back afterwards. A handler that
	// panics has INTERNAL here, and a call that its client has left always counts. It is for all limits;
	// rules have a setting of their own (policy.Rule.CountStatus). Default: all calls count.
	Counts func(code codes.Code) bool
	// Context lets handlers read the verdict by policy.FromContext. Default: they cannot.
	Context bool
	// OnVerdict is called once for each call and each limited message, with the final verdict. The call
	// is after the wait, if there is one, and before the handler. took is how long the decision took,
	// without the wait. It is for metrics and logs; it must not keep or change the verdict, and must be
	// safe for concurrent use. Default: not called.
	OnVerdict func(c *Call, v *policy.Verdict, took time.Duration)
	// OnError gets the store's errors: in decisions, and when charges are canceled, settled or released.
	// Only an error in a decision can make a call fail. It must be safe for concurrent use. Default:
	// errors are ignored here; errors of decisions are in the verdict.
	OnError func(c *Call, err error)
}

const defaultPushback = 10 * time.Second

// Server limits the calls of a grpc.Server. Unary and Stream are its interceptors; Options installs
// both. It is safe for concurrent use.
//
// A call that is allowed after a delay waits, but only until its context ends. When the client is gone,
// the call is not handled and its charges are given back. Leases of concurrency limits are held until
// the handler returns or panics: for a stream, until its end.
type Server struct {
	calls    *side
	received *side // nil if the messages are not limited
	sent     *side
	o        ServerOptions
	headers  *httplimit.Headers
}

// NewServer returns a server's interceptors, which carry out the verdicts of d. The error names each rule
// of the policy that gRPC cannot express.
func NewServer(d *Decider, o ServerOptions) (*Server, error) {
	if d == nil {
		return nil, errors.New("grpclimit: NewServer has no Decider; make one with NewKeyDecider or NewPolicyDecider")
	}
	if err := checkGate("ServerOptions", o.Gate, o.MaxDelay, o.MaxWaiting, o.Counts != nil); err != nil {
		return nil, err
	}
	headers, err := httplimit.NewHeaders(o.Headers)
	if err != nil {
		return nil, fmt.Errorf("grpclimit: ServerOptions.Headers: %w", err)
	}
	if o.MaxPushback == 0 {
		o.MaxPushback = defaultPushback
	}
	s := &Server{o: o, headers: headers}
	waiting := gate.Options{MaxDelay: o.MaxDelay, MaxWaiting: o.MaxWaiting}
	h := hooks{onVerdict: o.OnVerdict, onError: o.OnError, onDenied: o.OnDenied, domain: o.ErrorDomain, jitter: o.Headers.Jitter}
	if s.received, err = newMessages("ServerOptions.Received", o.Received, onServer, waiting, h); err != nil {
		return nil, err
	}
	if s.sent, err = newMessages("ServerOptions.Sent", o.Sent, onServer, waiting, h); err != nil {
		return nil, err
	}
	waiting.Counts = counting(o.Counts)
	if s.calls, err = newSide("NewServer", d, onServer, o.Gate, waiting, h); err != nil {
		return nil, err
	}
	return s, nil
}

// Options returns the options that install both interceptors, after the interceptors of earlier options.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary), grpc.ChainStreamInterceptor(s.Stream)}
}

// Waiting returns how many calls wait now, in this server and in other edges of its gate.
func (s *Server) Waiting() int { return s.calls.gate.Waiting() }

// Gate returns the gate that carries out the verdicts about calls.
func (s *Server) Gate() *gate.Gate { return s.calls.gate }

// Unary is a grpc.UnaryServerInterceptor.
// The error is the status of a denial, or the error of the handler.
func (s *Server) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	c := &Call{Method: info.FullMethod, Message: request, ctx: ctx}
	p, err := s.admit(c)
	if err != nil {
		return nil, err
	}
	err = p.run(c, func() error {
		answer, err = handler(p.ctx, request)
		return err
	})
	return answer, err
}

// Stream is a grpc.StreamServerInterceptor. It decides when a stream begins, and about its messages.
// The error is the status of a denial, or the error of the handler.
func (s *Server) Stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := &Call{Method: info.FullMethod, ctx: stream.Context()}
	p, err := s.admit(c)
	if err != nil {
		return err
	}
	limited := newServerStream(stream, s, c, p)
	defer limited.end(nil)
	return p.run(c, func() error {
		err := handler(service, limited)
		if denied := limited.denied(); denied != nil {
			return denied // whatever the handler made of it
		}
		return err
	})
}

// pass is an admitted call: the context for its handler, and the state for its end.
type pass struct {
	ctx       context.Context //nolint:containedctx // handlers get it
	admission *gate.Admission
	record    *recorder // nil if no cost is in the metadata
}

// run handles the call.
func (p *pass) run(c *Call, handle func() error) error { return run(c, p.admission, p.record, handle) }

// admit decides about a call.
func (s *Server) admit(c *Call) (p pass, err error) {
	e := s.calls.enter(c, 0)
	v := &e.verdict
	if err := s.calls.conclude(c, e); err != nil {
		return p, err
	}
	if e.denied {
		s.refuse(c, v)
		return p, s.calls.denied(c, v)
	}
	s.report(c, v)
	p.admission, p.ctx = e.admission, passed(c, v, s.calls.decider.reserved(c, v.Policy()))
	if s.o.Context {
		p.ctx = policy.NewContext(p.ctx, v)
	}
	if e.admission.Settles() {
		p.record, p.ctx = recording(p.ctx)
	}
	return p, nil
}

// PerClient returns the options of a server that gives each client address a rate such as "100/m", in a
// token bucket, over a memory store of its own. Many services need nothing else:
//
//	limit, err := grpclimit.PerClient("100/m")
//	…
//	server := grpc.NewServer(limit...)
//
// The client is the peer of the connection; an IPv6 client is its /64 network. No metadata that a client
// can send chooses another budget. Behind a proxy all calls come from one peer: use NewKeyDecider there,
// with a ClientIP.
// The error reports a rate that is not one.
func PerClient(rate string) ([]grpc.ServerOption, error) {
	d, err := atRate("PerClient", "per-client", rate, policy.ClientIP())
	if err != nil {
		return nil, err
	}
	s, err := NewServer(d, ServerOptions{})
	if err != nil {
		return nil, err
	}
	return s.Options(), nil
}

// atRate returns a decider by a token bucket, over a memory store of its own.
func atRate(function, name, rate string, part policy.Part) (*Decider, error) {
	r, err := sluice.ParseRate(rate)
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %s: %w", function, err)
	}
	limit, err := sluice.NewLimit(name, sluice.TokenBucket{Rate: r})
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %s: %w", function, err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %s: %w", function, err)
	}
	return NewKeyDecider(KeyOptions{Store: store, Limits: []*sluice.Limit{limit}, Key: []policy.Part{part}})
}
