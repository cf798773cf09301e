package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/share"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
	"github.com/sluicehq/sluice/server/internal/listen/stream"
)

// Options configure a Server.
type Options struct {
	// Decider decides. CL.THROTTLE uses its store. Required.
	Decider *policy.Decider
	// OnVerdict is called once for each verdict that is not a peek, with the time that the decision
	// took. It must not keep or change the verdict. Optional.
	OnVerdict func(v *policy.Verdict, took time.Duration)
	// Pipelines decides commands that arrive together. Default: they are decided one after another.
	Pipelines *pipeline.Pipelines
	// Verify reports whether a token is valid, and whether it may decide. Default: clients need no token.
	Verify func(token string) (known, decides bool)
	// Context is the context of decisions. Default: one that never ends.
	Context context.Context
	// TLS is the configuration of connections over TLS. Default: connections are not encrypted.
	TLS *tls.Config
	// Version is the version of the program, for INFO.
	Version string
	// Idle is how long a connection may be idle. Default: 2 minutes.
	Idle time.Duration
	// Read is how long a client may take to send one command, and to authenticate. Default: 10 seconds.
	Read time.Duration
	// Write is how long a client may take to read replies. Default: 30 seconds.
	Write time.Duration
}

// Server answers the commands of Redis clients. It is safe for concurrent use.
type Server struct {
	*stream.Server
	o         Options
	ctx       context.Context
	verbs     []verb
	table     table
	throttles *throttles
	queues    queues
	began     time.Time
	ids       atomic.Int64
}

// New returns a server.
func New(o Options) (*Server, error) {
	if o.Decider == nil {
		return nil, errors.New("resp: Decider is required")
	}
	if o.OnVerdict == nil {
		o.OnVerdict = func(*policy.Verdict, time.Duration) {}
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	if o.Idle <= 0 {
		o.Idle = 2 * time.Minute
	}
	if o.Read <= 0 {
		o.Read = 10 * time.Second
	}
	if o.Write <= 0 {
		o.Write = 30 * time.Second
	}
	s := &Server{o: o, ctx: o.Context, began: time.Now(), verbs: verbs()}
	s.table = newTable(s.verbs)
	s.throttles = newThrottles(mostThrottles)
	s.queues.room = share.NewRoom(mostQueuedByAll)
	s.Server = stream.New(stream.Options{TLS: o.TLS, Run: func(c *stream.Conn) bool { return s.open(c).Run() }})
	return s, nil
}
