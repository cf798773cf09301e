package goredisstore

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/redisstore"
)

var _ redisstore.Client = (*Client)(nil)

// Client is a redisstore.Client over go-redis. It is safe for concurrent use. Most programs need only New.
type Client struct{ redis redis.UniversalClient }

// Cluster reports whether the client speaks to a cluster.
func (c *Client) Cluster() bool {
	_, ok := c.redis.(*redis.ClusterClient)
	return ok
}

// EvalSHA implements redisstore.Client, with its errors.
func (c *Client) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	return c.do(ctx, script(ctx, "evalsha", sha, keys, args))
}

// Eval implements redisstore.Client, with its errors.
func (c *Client) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	return c.do(ctx, script(ctx, "eval", source, keys, args))
}

func (c *Client) do(ctx context.Context, command *redis.StringCmd) (string, error) {
	o := &once{StringCmd: command}
	err := c.redis.Process(ctx, o)
	if err == nil {
		return command.Val(), nil
	}
	err = o.explain(err)
	c.refresh(ctx, err)
	return "", err
}

// refresh makes the client of a cluster look up the owners of slots after a call without a
// reply, because the node may be gone. By itself, go-redis looks them up only before it
// repeats a command.
func (c *Client) refresh(ctx context.Context, err error) {
	cluster, ok := c.redis.(*redis.ClusterClient)
	var reply *redisstore.ServerError
	if ok && !errors.As(err, &reply) && !errors.Is(err, context.Canceled) {
		cluster.ReloadState(ctx) // in the background, one at a time
	}
}

// script returns a command that runs a script.
func script(ctx context.Context, name, text string, keys, args []string) *redis.StringCmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, name, text, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	for _, arg := range args {
		words = append(words, arg)
	}
	command := redis.NewStringCmd(ctx, words...)
	if len(keys) > 0 {
		// A cluster is routed by the first key. Without the step count, go-redis requests it
		// from a server, and waits up to 5 s for the reply, even if the context ends before.
		command.SetFirstKeyPos(3)
		command.SetStepCount(1)
	}
	return command
}

// once is a command that go-redis sends once. MaxRetries is not enough for that: the client
// of a cluster repeats a failed command as often as it may follow redirections.
type once struct {
	*redis.StringCmd
	read bool // its arguments were read
}

// NoRetry reports that go-redis must not repeat the command.
func (*once) NoRetry() bool { return true }

// Args returns the arguments. Go-redis reads them to write the command to a connection, and
// in a cluster also to find the node. A command that was not read was not sent.
func (o *once) Args() []any {
	o.read = true
	return o.StringCmd.Args()
}

// explain turns an error of go-redis into an error of redisstore.
func (o *once) explain(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !errors.Is(err, redis.Nil) {
		return &redisstore.ServerError{Text: reply.Error()}
	}
	// Go-redis connects before it writes a command, and in a cluster also to the next node
	// after a node has refused the command.
	var dial *net.OpError
	if !o.read || errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: %w", redisstore.ErrNotSent, err)
	}
	return err
}
