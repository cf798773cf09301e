//go:build unix

package direct

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// leaving is a client that leaves when a connection gets its request.
type leaving struct {
	steps
	leave func()
}

func (l *leaving) Forwarded() { l.leave() }

// A service that does not read the head of a request holds it up until the client leaves, and no longer.
func TestHeadsThatNobodyReads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := dialer()
	c := newClient(t, Options{Connect: edgetest.Patience, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) // a write fails too
		for piece := make([]byte, 1<<20); err == nil; {
			_, err = c.Write(piece) // until the buffers of both sides are full
		}
		raw, _ := c.(*net.TCPConn).SyscallConn()
		_ = raw.Control(func(fd uintptr) {
			for err = nil; err == nil; {
				_, err = syscall.Write(int(fd), []byte{0}) // the system wakes writers up only when much room is free
			}
		})
		return c, c.SetWriteDeadline(time.Time{})
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client has left")
	if err := send(ctx, c, l.Addr().String(), &leaving{leave: func() { cancel(left) }}); !errors.Is(err, left) {
		t.Errorf("%v, want that the client has left", err)
	}
}
