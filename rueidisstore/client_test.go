package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/redisstore"
)

// TestRueidisErrorsBeforeSending checks which errors of rueidis mean that a call was not sent. Error replies
// come from real servers, in checks/redis.
func TestRueidisErrorsBeforeSending(t *testing.T) {
	tests := []struct {
		err     error
		notSent bool
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, true},
		{fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial"}), true},
		{rueidis.ErrNoSlot, true},
		{&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset")}, false},
		{&net.OpError{Op: "write", Net: "tcp", Err: errors.New("broken pipe")}, false},
		{io.EOF, false},
		{io.ErrUnexpectedEOF, false},
		{context.DeadlineExceeded, false},
		{rueidis.ErrClosing, false}, // also of calls that were under way
		{rueidis.Nil, false},        // a script that replied nothing has run
	}
	for _, test := range tests {
		got := explain(test.err)
		if errors.Is(got, redisstore.ErrNotSent) != test.notSent {
			t.Errorf("%v: not sent is %v; want %v", test.err, !test.notSent, test.notSent)
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

// TestLifetimeIsRefused: with a lifetime of connections, scripts could be sent twice. Nothing
// is dialed.
func TestLifetimeIsRefused(t *testing.T) {
	o := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, ConnLifetime: time.Hour}
	if _, err := New(o, redisstore.Options{}); err == nil || !strings.Contains(err.Error(), "set no ConnLifetime") {
		t.Fatalf("New returns %v", err)
	}
	o.ConnLifetime = 0
	if _, err := New(o, redisstore.Options{}); !errors.Is(err, redisstore.ErrNotSent) || !strings.HasPrefix(err.Error(), "rueidisstore: cannot connect: ") {
		t.Fatalf("without a server, New returns %v", err)
	}
}
