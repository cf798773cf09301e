package goredisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/redisstore"
)

// TestGoredisErrorsBeforeSending checks which errors of go-redis mean that a call was not sent. Error replies
// come from real servers, in checks/redis.
func TestGoredisErrorsBeforeSending(t *testing.T) {
	tests := []struct {
		err     error
		read    bool // the arguments were read
		notSent bool
	}{
		{context.DeadlineExceeded, false, true},
		{io.EOF, false, true}, // the connection was not made
		{context.DeadlineExceeded, true, false},
		{io.EOF, true, false},
		{redis.Nil, true, false}, // a script that replied nothing has run
		{&net.OpError{Op: "read", Err: errors.New("connection reset")}, true, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true, true}, // in a cluster
	}
	for _, test := range tests {
		o := &once{read: test.read}
		got := o.explain(test.err)
		if errors.Is(got, redisstore.ErrNotSent) != test.notSent {
			t.Errorf("%v, read %v: not sent is %v; want %v", test.err, test.read, !test.notSent, test.notSent)
		}
		if !errors.Is(got, test.err) {
			t.Errorf("%v does not wrap %v", got, test.err)
		}
		var reply *redisstore.ServerError
		if errors.As(got, &reply) {
			t.Errorf("%v became a reply of the server", test.err)
		}
	}
}

// TestNoConnectionLeft is a call that waits in vain for the only connection. That one goes to
// a server that does not answer.
func TestNoConnectionLeft(t *testing.T) {
	var listener net.ListenConfig
	silent, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), PoolSize: 1, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer r.Close()
	c, err := NewClient(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.EvalSHA(ctx, "sha", []string{"k"}, nil); !errors.Is(err, redisstore.ErrNotSent) {
		t.Fatalf("%v; want that the call was not sent", err)
	}
}
