package bandwidth_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/internal/ratetest"
)

// TestRateReally is TestRateExactly by the real clock.
func TestRateReally(t *testing.T) {
	t.Parallel()
	for _, rate := range []sluice.Rate{sluice.PerSecond(1 * mB), sluice.PerSecond(100 * mB), sluice.PerSecond(1 * gB)} {
		for _, name := range []string{"Reader", "Writer"} {
			t.Run(fmt.Sprintf("%s/%v", name, rate), func(t *testing.T) {
				t.Parallel()
				ratetest.Within(t, in(rate, time.Second), func(int) float64 { return measure(t, movers[name](t.Context(), 32<<10, flow(t, rate))) })
			})
		}
	}
}

// measure returns how many bytes move in a second.
func measure(t *testing.T, move mover) float64 {
	t.Helper()
	rate, err := ratetest.Measure(move)
	if err != nil {
		t.Fatal(err)
	}
	return rate
}

// TestCopyKeepsToTheRate copies from one connection to another at 10 MB/s by the real clock. Other work of the machine may delay
// bytes; nothing may make them faster than the rate.
func TestCopyKeepsToTheRate(t *testing.T) {
	rate := sluice.PerSecond(10 * mB)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from, to := pipe(t)
	done := make(chan error)
	go func() {
		w := bandwidth.NewWriter(ctx, to, flow(t, rate))
		_, err := io.Copy(w, endless{ctx})
		_ = to.Close()
		_ = err // the context's, or that nobody reads any more
		done <- w.Close()
	}()
	p := make([]byte, 256<<10)
	ratio := measure(t, func() (int, error) { return from.Read(p) }) / in(rate, time.Second)
	cancel()
	_ = from.Close()
	if err := <-done; err != nil {
		t.Errorf("the end of a copy is an error: %v", err)
	}
	if ratio > 1.06 || ratio < 0.1 {
		t.Errorf("the copy moves %.2f of its rate, want at most 1.06, and some of it on a busy machine", ratio)
	}
}

// endless gives bytes until its context ends.
type endless struct{ ctx context.Context }

func (e endless) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pipe returns two ends of a connection over TCP.
func pipe(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d net.Dialer
	if client, err = d.DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// TestFairnessReally lets two connections of a key share 10 MB/s by the real clock. They use at least half of it.
func TestFairnessReally(t *testing.T) {
	of := ratetest.Span()
	rate := sluice.PerSecond(10 * mB)
	var seen [][2]float64
	for range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), of)
		f := flow(t, rate)
		moved := make(chan int64, 2)
		for _, size := range []int{500, 32 << 10} {
			w := bandwidth.NewWriter(ctx, io.Discard, f)
			go func() {
				p, sum := buffer(size), int64(0)
				for {
					n, err := w.Write(p)
					sum += int64(n)
					if err != nil {
						moved <- sum
						return
					}
				}
			}()
		}
		a, b := float64(<-moved)/in(rate, of), float64(<-moved)/in(rate, of)
		cancel()
		// One of them has the first burst.
		if math.Abs(a-b) <= 0.06 && a+b >= 0.5 {
			return
		}
		seen = append(seen, [2]float64{a, b})
	}
	t.Errorf("two connections move unequal parts of the rate, or too little: %.3f", seen)
}
