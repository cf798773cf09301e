package goredisstore

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/redisstore"
)

var _ redisstore.Client = (*client)(nil)

type client struct{ redis redis.UniversalClient }

func (c *client) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	return c.do(ctx, script(ctx, "evalsha", sha, keys, args))
}

func (c *client) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	return c.do(ctx, script(ctx, "eval", source, keys, args))
}

func (c *client) do(ctx context.Context, command *redis.StringCmd) (string, error) {
	o := &once{StringCmd: command}
	err := c.redis.Process(ctx, o)
	if err == nil {
		return command.Val(), nil
	}
	err = o.explain(err)
	c.doubt(ctx, err)
	return "", err
}

// doubt lets the client of a cluster ask who owns the slots, after a call that nobody
// has answered: the node may be gone. Go-redis would do so only before it repeats a command.
func (c *client) doubt(ctx context.Context, err error) {
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
		// What a cluster routes by. Without the number of steps, go-redis asks a server
		// for it, and waits up to 5 s for that, whatever the context says.
		command.SetFirstKeyPos(3)
		command.SetStepCount(1)
	}
	return command
}

// once is a command that go-redis sends once. MaxRetries alone does not see to that:
// the client of a cluster repeats what failed as often as it may follow redirections.
type once struct {
	*redis.StringCmd
	asked bool // for its arguments
}

// NoRetry is what go-redis asks before it repeats a command.
func (*once) NoRetry() bool { return true }

// Args is what go-redis asks for when it writes a command to a connection, and in a
// cluster also to find the node. No server has seen what nobody has asked for.
func (o *once) Args() []any {
	o.asked = true
	return o.StringCmd.Args()
}

// explain turns an error of go-redis into one of redisstore.
func (o *once) explain(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !errors.Is(err, redis.Nil) {
		return &redisstore.ServerError{Text: reply.Error()}
	}
	// A connection is made before a command is written, and in a cluster also to the
	// next node after one refused it.
	var dial *net.OpError
	if !o.asked || errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: %w", redisstore.ErrNotSent, err)
	}
	return err
}
