package bandwidth_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
)

// paced returns a connection that reads and writes at 1 MB/s each, and its other end.
func paced(ctx context.Context, t *testing.T) (*bandwidth.Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	c := bandwidth.NewConn(ctx, near, bandwidth.ConnOptions{
		Read: []bandwidth.Flow{flow(t, sluice.PerSecond(1*mB))}, Write: []bandwidth.Flow{flow(t, sluice.PerSecond(1*mB))},
	})
	t.Cleanup(func() {
		c.Close()
		far.Close()
	})
	return c, far
}

// TestConnMovesBothWaysAtTheRate moves bytes both ways at once, each at its rate.
func TestConnMovesBothWaysAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := paced(t.Context(), t)
		began := time.Now()
		done := make(chan error, 4)
		go func() {
			_, err := far.Write(buffer(530 * kB))
			done <- err
		}()
		go func() {
			_, err := io.CopyN(io.Discard, far, 2*mB)
			done <- err
		}()
		go func() {
			_, err := io.ReadFull(c, make([]byte, 530*kB))
			if took := time.Since(began); took < 500*time.Millisecond || took > 520*time.Millisecond {
				t.Errorf("reading 530 kB took %v", took)
			}
			done <- err
		}()
		go func() {
			_, err := io.CopyN(c, bytes.NewReader(buffer(2*mB)), 2*mB)
			if took := time.Since(began); took < 1970*time.Millisecond || took > 1990*time.Millisecond {
				t.Errorf("writing 2 MB took %v", took)
			}
			done <- err
		}()
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestConnDeadlines ends what waits for its turn at the connection's deadline, one that
// is set meanwhile too, and goes on after it without the loss of a byte.
func TestConnDeadlines(t *testing.T) {
	for name, set := range map[string]func(c *bandwidth.Conn, at time.Time) error{
		"both":  (*bandwidth.Conn).SetDeadline,
		"write": (*bandwidth.Conn).SetWriteDeadline,
	} {
		for _, late := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, far := paced(t.Context(), t)
					go func() { _, _ = io.Copy(io.Discard, far) }()
					began := time.Now()
					at := began.Add(100 * time.Millisecond)
					if late {
						time.AfterFunc(50*time.Millisecond, func() { _ = set(c, at) })
					} else if err := set(c, at); err != nil {
						t.Fatal(err)
					}
					n, err := c.Write(buffer(1 * mB))
					if !errors.Is(err, os.ErrDeadlineExceeded) || n < 100*kB || n > 130*kB {
						t.Errorf("want a write that ends at its deadline after some 100,000 bytes, got %d, %v", n, err)
					}
					if took := time.Since(began); took < 80*time.Millisecond || took > 100*time.Millisecond {
						t.Errorf("it took %v", took)
					}
					if n, err := c.Write(buffer(1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("after it: %d, %v", n, err)
					}
					if err := set(c, time.Time{}); err != nil {
						t.Fatal(err)
					}
					if n, err := c.Write(buffer(200 * kB)); n != 200*kB || err != nil {
						t.Errorf("without it: %d, %v", n, err)
					}
				})
			})
		}
	}
	t.Run("read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, far := paced(t.Context(), t)
			text := strings.Repeat("in order, ", 20_000)
			go func() { _, _ = io.WriteString(far, text) }()
			if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			first, err := io.ReadAll(c)
			if !errors.Is(err, os.ErrDeadlineExceeded) || len(first) < 120*kB || len(first) > 150*kB {
				t.Errorf("%d bytes, %v", len(first), err)
			}
			if err := c.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			rest := make([]byte, len(text)-len(first))
			if _, err := io.ReadFull(c, rest); err != nil {
				t.Fatal(err)
			}
			if string(first)+string(rest) != text {
				t.Error("bytes were lost")
			}
		})
	})
}

// TestCloseEndsWaitingReadsAndWrites ends reads and writes that wait, and the context does the same.
func TestCloseEndsWaitingReadsAndWrites(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(c *bandwidth.Conn, cancel func())
		want error
	}{
		"close":   {func(c *bandwidth.Conn, _ func()) { _ = c.Close() }, net.ErrClosed},
		"context": {func(_ *bandwidth.Conn, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				conn, far := paced(ctx, t)
				go func() { _, _ = io.Copy(io.Discard, far) }()
				go func() { _, _ = far.Write(buffer(1 * mB)) }()
				done := make(chan error, 2)
				go func() {
					_, err := conn.Write(buffer(1 * mB))
					done <- err
				}()
				go func() {
					_, err := io.ReadFull(conn, make([]byte, 1*mB))
					done <- err
				}()
				<-time.After(200*time.Millisecond + time.Microsecond)
				c.end(conn, cancel)
				synctest.Wait()
				for range 2 {
					select {
					case err := <-done:
						if !errors.Is(err, c.want) {
							t.Errorf("the error is %v", err)
						}
					default:
						t.Error("it still waits")
					}
				}
				_ = far.Close()
			})
		})
	}
}

// TestConnCloseWrite ends one direction where the connection can.
func TestConnCloseWrite(t *testing.T) {
	near, far := pipe(t)
	c := bandwidth.NewConn(t.Context(), near, bandwidth.ConnOptions{})
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the other end reads %d, %v", n, err)
	}
	if _, err := far.Write([]byte("back")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); string(got) != "back" || err != nil {
		t.Errorf("the open direction brought %q, %v; want back", got, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	a, _ := net.Pipe()
	if err := bandwidth.NewConn(t.Context(), a, bandwidth.ConnOptions{}).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CloseWrite on a pipe: %v", err)
	}
}
