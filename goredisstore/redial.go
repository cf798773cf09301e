package goredisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// When packets are lost, TCP repeats the first packet of a connection after 1, 3 and 7 seconds,
// and go-redis makes only so many connections at once. So the connections that were begun in an
// outage could delay the recovery by seconds. The hook below lets each of them try again beside
// its first attempt.
const (
	dialAgain   = 250 * time.Millisecond // until the next attempt begins
	dialPatient = time.Second            // for each attempt but the first
	dialTries   = 40
)

// redialNodes adds the hook to a client, and to the nodes of a cluster when they are found.
func redialNodes(c redis.UniversalClient) {
	switch c := c.(type) {
	case *redis.Client:
		c.AddHook(redialer{newServer(c)})
	case *redis.ClusterClient:
		c.OnNewNode(func(node *redis.Client) { node.AddHook(redialer{newServer(node)}) })
	}
}

// redialer is a hook that concerns only how connections are made.
type redialer struct{ *server }

var _ redis.Hook = redialer{}

// ProcessHook changes nothing.
func (redialer) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (redialer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// redialing is the key of contexts that redial passes on: a client may have the hook twice.
type redialing struct{}

// DialHook returns a function that makes a connection by several attempts.
func (r redialer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(redialing{}) != nil {
			return next(ctx, network, addr)
		}
		ctx = context.WithValue(ctx, redialing{}, true)
		conn, err := redial(ctx, func(ctx context.Context) (net.Conn, error) { return next(ctx, network, addr) })
		if err != nil {
			return nil, err
		}
		return r.watch(conn), nil
	}
}

// dialed is the result of an attempt.
type dialed struct {
	conn  net.Conn
	err   error
	first bool
}

// redial returns the first connection that an attempt makes. An error ends it, unless an
// attempt after the first one has only run out of its own time.
func redial(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialed) // without room, so that no connection is lost in it
	attempt := func(ctx context.Context, first bool) {
		r := dialed{first: first}
		r.conn, r.err = dial(ctx)
		select {
		case results <- r:
		case <-ctx.Done():
			if r.conn != nil {
				_ = r.conn.Close()
			}
		}
	}
	go attempt(ctx, true)
	tick := time.NewTicker(dialAgain)
	defer tick.Stop()
	for tries := 1; ; {
		select {
		case r := <-results:
			if r.err == nil || r.first || !timedOut(r.err) {
				return r.conn, r.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
			if tries++; tries <= dialTries {
				go func() {
					ctx, cancel := context.WithTimeout(ctx, dialPatient)
					defer cancel()
					attempt(ctx, false)
				}()
			}
		}
	}
}

// timedOut reports whether an attempt ran out of time.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
