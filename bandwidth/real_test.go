package bandwidth_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/internal/runqueue"
)

// span is how long rates are measured: 5 s with the burst if SLUICE_SOAK is set; otherwise one
// second after the burst, because the burst would be 3 % of that second.
func span() (of time.Duration, skip time.Duration) {
	if os.Getenv("SLUICE_SOAK") != "" {
		return 5 * time.Second, 0
	}
	return time.Second, 2 * bandwidth.BurstTime
}

// tries is how often a measurement may be disturbed by other work of the machine. A good
// measurement ends a test at once.
const tries = 15

// most is the largest part of the rate that may move, however busy the machine is: it only delays bytes. The bytes of a pause
// may follow it, up to the burst.
const most = 1.06

// within tries measurements until one is within 2 % of what is expected. If none is, one may be less by the part of the time
// in which the process waited for a processor. None may be more than most.
func within(t *testing.T, measure func() (ratio float64)) {
	t.Helper()
	var seen []string
	disturbed := false
	for range tries {
		var ratio float64
		starved := runqueue.Starved(func() { ratio = measure() })
		seen = append(seen, fmt.Sprintf("%.2f %%, starved %.2f %%", 100*ratio, 100*starved))
		if ratio > most {
			t.Fatalf("more than the rate: %v", seen)
		}
		disturbed = disturbed || ratio <= 1.02 && ratio >= runqueue.Least(0.02, starved)
		if math.Abs(ratio-1) <= 0.02 {
			t.Logf("share of the rate: %v", seen)
			return
		}
	}
	if disturbed {
		t.Logf("the machine was too busy for the rate: %v", seen)
		return
	}
	t.Errorf("not within 2 %% of the rate: %v", seen)
}

// measure moves bytes for a while and returns which part of the rate moved.
func measure(t *testing.T, rate sluice.Rate, move mover) float64 {
	t.Helper()
	of, skip := span()
	began, sum := time.Now(), 0
	for time.Since(began) < of {
		n, err := move()
		if err != nil {
			t.Fatal(err)
		}
		if sum += n; skip > 0 && time.Since(began) >= skip {
			began, sum, skip = time.Now(), 0, 0
		}
	}
	return float64(sum) / in(rate, time.Since(began))
}

// TestRateReally is TestRateExactly by the real clock.
func TestRateReally(t *testing.T) {
	t.Parallel()
	for _, rate := range []sluice.Rate{sluice.PerSecond(1 * mB), sluice.PerSecond(100 * mB), sluice.PerSecond(1 * gB)} {
		for _, name := range []string{"Reader", "Writer"} {
			t.Run(fmt.Sprintf("%s/%v", name, rate), func(t *testing.T) {
				t.Parallel()
				within(t, func() float64 { return measure(t, rate, movers[name](t.Context(), 32<<10, flow(t, rate))) })
			})
		}
	}
}

// TestRateOfCopy copies from one connection to another at 100 MB/s.
func TestRateOfCopy(t *testing.T) {
	rate := sluice.PerSecond(100 * mB)
	within(t, func() float64 {
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
		ratio := measure(t, rate, func() (int, error) { return from.Read(p) })
		cancel()
		_ = from.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		return ratio
	})
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
	of, _ := span()
	rate := sluice.PerSecond(10 * mB)
	var seen [][2]float64
	for range tries {
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
