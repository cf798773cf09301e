package bandwidth_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/memory"
)

const (
	kB = 1000
	mB = 1000 * kB
	gB = 1000 * mB
)

var key = sluice.StringKey("somebody")

// store returns a memory store. In a bubble it uses the bubble's clock.
func store(tb testing.TB) *memory.Store {
	tb.Helper()
	s, err := memory.New(memory.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// limiter returns a limiter, or fails the test.
func limiter(tb testing.TB, o bandwidth.Options) *bandwidth.Limiter {
	tb.Helper()
	if o.Store == nil {
		o.Store = store(tb)
	}
	l, err := bandwidth.NewLimiter(o)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// flow returns the flow of a key at a rate.
func flow(tb testing.TB, r sluice.Rate) bandwidth.Flow {
	tb.Helper()
	return limiter(tb, bandwidth.Options{Rate: r}).Flow(key)
}

// used returns how many bytes a limiter's key could move at once, less those it can.
func used(tb testing.TB, s sluice.Store, l *bandwidth.Limiter, k sluice.Key) int64 {
	tb.Helper()
	d, err := s.Decide(context.Background(), sluice.Request{Limit: l.Limit(), Key: k, Cost: 1, Peek: true})
	if err != nil {
		tb.Fatal(err)
	}
	return l.Limit().Capacity() - d.Remaining
}

// source gives as many bytes as a read wants, without an end.
type source struct{}

func (source) Read(p []byte) (int, error) { return len(p), nil }

// pieces gives so many bytes at a time.
type pieces int

func (n pieces) Read(p []byte) (int, error) { return min(int(n), len(p)), nil }

// trace remembers when bytes moved.
type trace struct {
	began time.Time
	moved []moved
	sum   int64
}

type moved struct {
	at    time.Duration
	bytes int64
}

func newTrace() *trace { return &trace{began: time.Now()} }

func (t *trace) Write(p []byte) (int, error) {
	t.add(len(p))
	return len(p), nil
}

func (t *trace) add(n int) {
	t.moved = append(t.moved, moved{time.Since(t.began), int64(n)})
	t.sum += int64(n)
}

// burst returns the most bytes that moved in any interval beyond a rate, exactly what a
// bucket would have needed to hold.
func (t *trace) burst(r sluice.Rate) float64 {
	perNano := float64(r.Count()) / float64(r.Period())
	most, least, sum := 0.0, 0.0, 0.0
	for i, m := range t.moved {
		before := sum - perNano*float64(m.at)
		if i == 0 || before < least {
			least = before
		}
		sum += float64(m.bytes)
		most = max(most, sum-perNano*float64(m.at)-least)
	}
	return most
}

// in returns how many bytes a rate gives in a time.
func in(r sluice.Rate, d time.Duration) float64 {
	return float64(r.Count()) * float64(d) / float64(r.Period())
}

// a mover moves some bytes once.
type mover func() (int, error)

// movers are a Reader and Writers, each over its flows.
var movers = map[string]func(ctx context.Context, size int, f ...bandwidth.Flow) mover{
	"Reader": func(ctx context.Context, size int, f ...bandwidth.Flow) mover {
		r, p := bandwidth.NewReader(ctx, source{}, f...), make([]byte, size)
		return func() (int, error) { return r.Read(p) }
	},
	"Writer": func(ctx context.Context, size int, f ...bandwidth.Flow) mover {
		w, p := bandwidth.NewWriter(ctx, io.Discard, f...), make([]byte, size)
		return func() (int, error) { return w.Write(p) }
	},
	"ReadFrom": func(ctx context.Context, size int, f ...bandwidth.Flow) mover {
		w := bandwidth.NewWriter(ctx, readerFrom{}, f...)
		return func() (int, error) {
			n, err := w.ReadFrom(io.LimitReader(source{}, int64(size)))
			return int(n), err
		}
	},
}

// readerFrom takes all that it is given, in one step.
type readerFrom struct{}

func (readerFrom) Write(p []byte) (int, error) { return len(p), nil }

func (readerFrom) ReadFrom(r io.Reader) (int64, error) {
	l := r.(*io.LimitedReader)
	n := l.N
	l.N = 0
	return n, nil
}
