package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/redisstore"
)

var _ redisstore.Client = (*client)(nil)

// client sends scripts with commands that rueidis does not repeat.
type client struct {
	redis rueidis.Client
	lane  *lane
}

func (c *client) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	return c.do(ctx, c.redis.B().Evalsha().Sha1(sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

func (c *client) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	return c.do(ctx, c.redis.B().Eval().Script(source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// do makes a call and returns when it has, or when the context ends.
func (c *client) do(ctx context.Context, command rueidis.Completed) (string, error) {
	reply, err := c.ask(ctx, command)
	if err != nil {
		return "", err
	}
	text, err := reply.ToString()
	if err != nil {
		return "", explain(err)
	}
	return text, nil
}

// ask is do for any reply that is no error.
func (c *client) ask(ctx context.Context, command rueidis.Completed) (rueidis.RedisResult, error) {
	var none rueidis.RedisResult
	if err := ctx.Err(); err != nil {
		return none, notSent(err)
	}
	now := c.lane.now()
	if c.lane.enter(now) {
		defer c.lane.leave()
		reply, err := c.send(ctx, command)
		c.lane.note(now, err)
		return reply, err
	}
	select {
	case c.lane.apart <- struct{}{}:
	case <-ctx.Done():
		return none, notSent(fmt.Errorf("%d calls wait for the server: %w", maxApart, ctx.Err()))
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-c.lane.apart }()
		reply, err := c.send(ctx, command)
		c.lane.note(now, err)
		done <- outcome{reply, err}
	}()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// outcome is what a call came to.
type outcome struct {
	reply rueidis.RedisResult
	err   error
}

func (c *client) send(ctx context.Context, command rueidis.Completed) (rueidis.RedisResult, error) {
	reply := c.redis.Do(ctx, command)
	if err := reply.Error(); err != nil {
		return reply, explain(err)
	}
	return reply, nil
}

// explain turns an error of rueidis into one of redisstore.
func explain(err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return &redisstore.ServerError{Text: reply.Error()}
	}
	// Rueidis gives a call to a connection after it was made, and in a cluster to the
	// next node after one refused it. Its ErrClosing tells nothing: calls that were
	// under way end with it, too.
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot) {
		return notSent(err)
	}
	return err
}

func notSent(err error) error { return fmt.Errorf("%w: %w", redisstore.ErrNotSent, err) }
