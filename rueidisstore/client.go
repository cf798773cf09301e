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

func (c *client) Info(ctx context.Context) (string, error) {
	return c.do(ctx, c.redis.B().Info().Build())
}

// do makes a call and returns when it has, or when the context ends.
func (c *client) do(ctx context.Context, command rueidis.Completed) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", notSent(err)
	}
	now := c.lane.now()
	if c.lane.enter(now) {
		defer c.lane.leave()
		text, err := c.send(ctx, command)
		c.lane.note(now, err)
		return text, err
	}
	select {
	case c.lane.apart <- struct{}{}:
	case <-ctx.Done():
		return "", notSent(fmt.Errorf("%d calls wait for the server: %w", maxApart, ctx.Err()))
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-c.lane.apart }()
		text, err := c.send(ctx, command)
		c.lane.note(now, err)
		done <- outcome{text, err}
	}()
	select {
	case o := <-done:
		return o.text, o.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// outcome is what a call came to.
type outcome struct {
	text string
	err  error
}

func (c *client) send(ctx context.Context, command rueidis.Completed) (string, error) {
	text, err := c.redis.Do(ctx, command).ToString()
	if err != nil {
		return "", explain(err)
	}
	return text, nil
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
