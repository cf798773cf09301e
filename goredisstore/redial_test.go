package goredisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A fake is a connection that counts whether it was closed.
type fakeConn struct {
	net.Conn
	open *atomic.Int64
}

func (c fakeConn) Close() error {
	c.open.Add(-1)
	return nil
}

// A connection that gets no answer is tried again, and only the first one that succeeds stays open.
func TestConnectionsWithoutAnswerAreTriedAgain(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		dial  func(ctx context.Context, n int64, since time.Duration) error
		took  time.Duration
		want  error
		tries int64
	}{
		"at once": {
			func(context.Context, int64, time.Duration) error { return nil }, 0, nil, 1,
		},
		"a slow handshake": { // slower than each further attempt
			func(ctx context.Context, n int64, _ time.Duration) error { return wait(ctx, 2900*time.Millisecond) }, 2900 * time.Millisecond, nil, 12,
		},
		"lost packets until the second second": {
			func(ctx context.Context, n int64, since time.Duration) error {
				if since < 2100*time.Millisecond {
					return wait(ctx, time.Hour)
				}
				return nil
			}, 2250 * time.Millisecond, nil, 10,
		},
		"refused": {
			func(context.Context, int64, time.Duration) error { return refused }, 0, refused, 1,
		},
		"refused later": {
			func(ctx context.Context, n int64, _ time.Duration) error {
				if n == 3 {
					return refused
				}
				return wait(ctx, time.Hour)
			}, 500 * time.Millisecond, refused, 3,
		},
		"never": {
			func(ctx context.Context, _ int64, _ time.Duration) error { return wait(ctx, time.Hour) }, 4900 * time.Millisecond, context.DeadlineExceeded, 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 4900*time.Millisecond)
				defer cancel()
				var tries, open atomic.Int64
				began := time.Now()
				hooked := redialer{&server{}}.DialHook(redialer{&server{}}.DialHook(func(ctx context.Context, _, _ string) (net.Conn, error) {
					if err := c.dial(ctx, tries.Add(1), time.Since(began)); err != nil {
						return nil, err
					}
					open.Add(1)
					return fakeConn{open: &open}, nil
				}))
				conn, err := hooked(ctx, "tcp", "192.0.2.1:6379")
				if took := time.Since(began); took != c.took || !errors.Is(err, c.want) || (conn != nil) != (c.want == nil) {
					t.Errorf("%v, %v after %v; want %v after %v", conn, err, took, c.want, c.took)
				}
				<-time.After(time.Minute)
				synctest.Wait()
				if n := tries.Load(); n != c.tries {
					t.Errorf("%d attempts, want %d", n, c.tries)
				}
				want := int64(0)
				if conn != nil {
					want = 1
				}
				if n := open.Load(); n != want {
					t.Errorf("%d connections are open in the end, want %d", n, want)
				}
			})
		})
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
