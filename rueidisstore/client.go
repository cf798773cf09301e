package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/redisstore"
)

// New connects to a server, a cluster or sentinels, and returns a store over them. It detects
// whether there is a cluster. Close of the store closes the connections.
//
// If PipelineMultiplex is 0, New uses one connection for each server, not the two or four of
// rueidis: more calls share a write and a read, and a server runs one script at a time anyway. 1
// means two connections.
//
// ConnLifetime must be 0. New disables the client's cache, which scripts cannot use. The
// context of a decision needs a deadline: by itself, rueidis detects a server that does not
// answer only after ten seconds.
//
// The error names the wrong option, or why the server cannot be reached.
func New(client rueidis.ClientOption, o redisstore.Options) (*redisstore.Store, error) {
	c, err := NewClient(client)
	if err != nil {
		return nil, err
	}
	o.Cluster = c.Cluster()
	s, err := redisstore.New(c, o)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// Client is a redisstore.Client over rueidis. It is safe for concurrent use. Most programs
// need only New.
type Client struct {
	redis rueidis.Client
	lane  *lane
}

var (
	_ redisstore.Client = (*Client)(nil)
	_ io.Closer         = (*Client)(nil)
)

// NewClient connects as New does, with its errors. It is for programs that wrap the client. They then call
// redisstore.New, with Options.Cluster set to the result of Cluster.
func NewClient(o rueidis.ClientOption) (*Client, error) {
	if o.ConnLifetime > 0 {
		// When the lifetime ends, rueidis sends again whatever was not answered within a
		// second, including scripts that may have run.
		return nil, errors.New("rueidisstore: with a ConnLifetime, rueidis sends calls again that may have run, which charges twice: set no ConnLifetime")
	}
	o.DisableCache = true
	if o.PipelineMultiplex == 0 {
		o.PipelineMultiplex = -1
	}
	l := newLane()
	l.watch(&o)
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("rueidisstore: cannot connect: %w", explain(err))
	}
	roomy := o.RingScaleEachConn == 0 || o.RingScaleEachConn >= rueidis.DefaultRingScale
	l.simple = roomy && c.Mode() == rueidis.ClientModeStandalone
	return &Client{redis: c, lane: l}, nil
}

// Cluster reports whether the client speaks to a cluster.
func (c *Client) Cluster() bool { return c.redis.Mode() == rueidis.ClientModeCluster }

// Close closes the connections. Calls in progress fail.
func (c *Client) Close() error {
	c.redis.Close()
	return nil
}

// EvalSHA implements redisstore.Client; see there for its errors.
func (c *Client) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	return c.do(ctx, first(keys), c.redis.B().Evalsha().Sha1(sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// Eval implements redisstore.Client; see there for its errors.
func (c *Client) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	return c.do(ctx, first(keys), c.redis.B().Eval().Script(source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// first returns the first of some keys, which are all on one server.
func first(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// do makes a call about a key whose reply is a string. It returns no later than its context ends.
func (c *Client) do(ctx context.Context, key string, command rueidis.Completed) (string, error) {
	reply, err := c.call(ctx, key, command)
	if err != nil {
		return "", err
	}
	text, err := reply.ToString()
	if err != nil {
		return "", explain(err)
	}
	return text, nil
}

// call makes a call about a key, with any reply. After a failure, it mends the connection.
func (c *Client) call(ctx context.Context, key string, command rueidis.Completed) (rueidis.RedisResult, error) {
	if err := ctx.Err(); err != nil {
		return rueidis.RedisResult{}, notSent(err)
	}
	slot := command.Slot()
	reply, err := c.callOnce(ctx, command)
	if failed(err) {
		c.mend(key, slot)
	}
	return reply, err
}

// callOnce makes a call. See lane for the goroutine that it runs in.
func (c *Client) callOnce(ctx context.Context, command rueidis.Completed) (rueidis.RedisResult, error) {
	var none rueidis.RedisResult
	now := c.lane.now()
	if c.lane.enter(now) {
		defer c.lane.leave()
		reply, err := c.send(ctx, command)
		c.lane.note(ctx, now, err)
		return reply, err
	}
	apart := c.lane.apartOf(command.Slot())
	select {
	case apart <- struct{}{}:
	case <-ctx.Done():
		return none, notSent(fmt.Errorf("%d calls wait for the server: %w", maxApart, ctx.Err()))
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-apart }()
		reply, err := c.send(ctx, command)
		c.lane.note(ctx, now, err)
		done <- outcome{reply, err}
	}()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// outcome is the result of a call.
type outcome struct {
	reply rueidis.RedisResult
	err   error
}

func (c *Client) send(ctx context.Context, command rueidis.Completed) (rueidis.RedisResult, error) {
	reply := c.redis.Do(ctx, command)
	if err := reply.Error(); err != nil {
		return reply, explain(err)
	}
	return reply, nil
}

// explain turns an error of rueidis into an error of redisstore.
func explain(err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return &redisstore.ServerError{Text: reply.Error()}
	}
	// Rueidis connects before it sends a call, and in a cluster also to the next node after
	// a node has refused the call. Its ErrClosing does not show whether a call was sent:
	// calls in progress end with it, too.
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot) {
		return notSent(err)
	}
	return err
}

func notSent(err error) error { return fmt.Errorf("%w: %w", redisstore.ErrNotSent, err) }
