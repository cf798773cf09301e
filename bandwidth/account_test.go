package bandwidth_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/guard"
)

// TestContextEnds ends the context of who waits for a turn: it returns at once, what was to
// be written goes back to the flow, and what was read is handed on and stays paid.
func TestContextEnds(t *testing.T) {
	for name, make := range movers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store(t)
				l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
				crowd(t, s, l, 500*kB)
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				time.AfterFunc(100*time.Millisecond, cancel)
				n, err := make(ctx, 4*kB, l.Flow(key))()
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if d := time.Since(began); d != 100*time.Millisecond {
					t.Errorf("returned after %v", d)
				}
				paid := 0
				if name == "Reader" {
					paid = 4 * kB
				}
				if n != paid {
					t.Errorf("%d bytes moved", n)
				}
				<-time.After(400*time.Millisecond + l.Rate().Period()/1000)
				if got := used(t, s, l, key); got > int64(30*kB-kB+paid) || got < int64(30*kB-kB-4*kB+paid) {
					t.Errorf("%d bytes are missing", got)
				}
			})
		})
	}
}

// crowd lets others wait for so many bytes beyond what the bucket holds.
func crowd(tb testing.TB, s sluice.Store, l *bandwidth.Limiter, n int64) {
	tb.Helper()
	n += l.Limit().Capacity()
	for n > 0 {
		cost := min(n, l.Limit().Capacity())
		n -= cost
		d, err := s.Decide(context.Background(), sluice.Request{Limit: l.Limit(), Key: key, Cost: cost, MaxWait: time.Hour})
		if err != nil || !d.Allowed {
			tb.Fatalf("%+v, %v", d, err)
		}
	}
}

// TestDeadline refuses at once what would wait beyond the deadline of the context.
func TestDeadline(t *testing.T) {
	for name, make := range movers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store(t)
				l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
				crowd(t, s, l, 500*kB)
				ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
				defer cancel()
				began, before := time.Now(), used(t, s, l, key)
				_, err := make(ctx, 4*kB, l.Flow(key))()
				if !errors.Is(err, sluice.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
				if d := time.Since(began); d != 0 {
					t.Errorf("returned after %v", d)
				}
				if after := used(t, s, l, key); after != before {
					t.Errorf("%d bytes were taken", after-before)
				}
			})
		})
	}
}

// TestDeadlineFar lets a write pass that its deadline has time for.
func TestDeadlineFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flow(t, sluice.PerSecond(1*mB))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := bandwidth.NewWriter(ctx, io.Discard, f).Write(buffer(500 * kB)); n != 500*kB || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		n, err := bandwidth.NewWriter(ctx, io.Discard, f).Write(buffer(1 * mB))
		if !errors.Is(err, context.DeadlineExceeded) || n < 500*kB || n > 530*kB {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// TestReaderOwes pays with Close for what was handed on without a turn.
func TestReaderOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		crowd(t, s, l, 500*kB)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := bandwidth.NewReader(ctx, source{}, l.Flow(key))
		p := make([]byte, 4*kB)
		if n, err := r.Read(p); n != len(p) || !errors.Is(err, sluice.ErrDeadline) {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := r.Read(p); n != 0 || !errors.Is(err, sluice.ErrDeadline) {
			t.Errorf("a second time: %d, %v", n, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		<-time.After(510 * time.Millisecond)
		if got := used(t, s, l, key); got != 20*kB+4*kB {
			t.Errorf("%d bytes are missing", got)
		}
	})
}

// TestClose gives back what was paid for and has not moved, and ends the use.
func TestClose(t *testing.T) {
	for name, make := range movers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store(t)
				l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
				move := make(t.Context(), 1, l.Flow(key))
				for range 3 { // the second pays for a chunk
					if _, err := move(); err != nil {
						t.Fatal(err)
					}
				}
				if got := used(t, s, l, key); name != "ReadFrom" && got != 1+20*kB {
					t.Errorf("%d bytes are paid", got)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		other := sluice.StringKey("another")
		r := bandwidth.NewReader(t.Context(), pieces(1), l.Flow(key))
		w := bandwidth.NewWriter(t.Context(), io.Discard, l.Flow(other))
		for range 3 {
			if n, err := r.Read(make([]byte, 9)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := w.Write(make([]byte, 1)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		for _, c := range []io.Closer{r, w, r, w} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, k := range []sluice.Key{key, other} {
			if got := used(t, s, l, k); got != 3 {
				t.Errorf("%d bytes are paid, of 3 that moved", got)
			}
		}
		if _, err := r.Read(make([]byte, 9)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("reading after Close: %v", err)
		}
		if _, err := w.Write(make([]byte, 9)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writing after Close: %v", err)
		}
	})
}

// TestIdle gives back what was paid for when the connection moves again after a
// while, and pays for single writes what they are.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		w := bandwidth.NewWriter(t.Context(), io.Discard, l.Flow(key))
		for _, c := range []struct {
			after   time.Duration
			missing int64
		}{
			{0, 100},
			{0, 100 + 20*kB},           // it is in a hurry
			{50 * time.Millisecond, 0}, // the bucket is full again, and it has a chunk
			{time.Millisecond, 100},    // which has gone back
			{time.Second, 100},         // and so each for itself
			{time.Second, 100},
		} {
			<-time.After(c.after)
			if _, err := w.Write(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			if got := used(t, s, l, key); got != c.missing {
				t.Errorf("after %v: %d bytes are missing, not %d", c.after, got, c.missing)
			}
		}
	})
	// Others of the key get what one does not use.
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		slow := bandwidth.NewWriter(t.Context(), io.Discard, l.Flow(key))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			for ctx.Err() == nil {
				if _, err := slow.Write(make([]byte, 10)); err != nil {
					done <- err
					return
				}
				if _, err := slow.Write(make([]byte, 10)); err != nil {
					done <- err
					return
				}
				<-time.After(100 * time.Millisecond)
			}
			done <- nil
		}()
		began := time.Now()
		if _, err := bandwidth.NewWriter(ctx, io.Discard, l.Flow(key)).Write(buffer(5 * mB)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 5020*time.Millisecond {
			t.Errorf("5 MB took %v", took)
		}
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestShortWrite pays for what was written, and not for the rest.
func TestShortWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		broken := errors.New("broken")
		w := bandwidth.NewWriter(t.Context(), &brokenWriter{room: 2500, err: broken}, l.Flow(key))
		n, err := w.Write(make([]byte, 6000))
		if n != 2500 || !errors.Is(err, broken) {
			t.Errorf("%d, %v", n, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if got := used(t, s, l, key); got != 2500 {
			t.Errorf("%d bytes are paid", got)
		}
		w = bandwidth.NewWriter(t.Context(), &brokenWriter{room: 10}, l.Flow(key))
		if n, err := w.Write(make([]byte, 60)); n != 10 || !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%d, %v", n, err)
		}
	})
}

type brokenWriter struct {
	room int
	err  error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	n := min(w.room, len(p))
	w.room -= n
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

// TestReaderEnds hands the last bytes on with the end, and pays for no more.
func TestReaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		text := strings.Repeat("every byte, in order; ", 5000)
		r := bandwidth.NewReader(t.Context(), strings.NewReader(text), l.Flow(key))
		began := time.Now()
		got, err := io.ReadAll(r)
		if string(got) != text || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		took := time.Since(began)
		if least := time.Duration(len(text)-30*kB) * time.Microsecond; took < least || took > least+bandwidth.ChunkTime {
			t.Errorf("took %v, where the rate needs %v", took, least)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		// A byte came back each microsecond.
		if got, want := used(t, s, l, key), int64(len(text))-took.Microseconds(); got != want {
			t.Errorf("%d bytes are missing, not %d", got, want)
		}
	})
}

// fileSink takes from files, or what else it is given, a piece at a time.
type fileSink struct {
	bytes.Buffer
	sources []io.Reader
}

func (f *fileSink) ReadFrom(r io.Reader) (int64, error) {
	f.sources = append(f.sources, r.(*io.LimitedReader).R)
	return f.Buffer.ReadFrom(r)
}

// TestReadFrom lets what is written to see the source itself, whatever limit stands
// around it, and reads no more than that.
func TestReadFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		text := strings.Repeat("0123456789", 10_000)
		file := strings.NewReader(text)
		sink := &fileSink{}
		w := bandwidth.NewWriter(t.Context(), sink, l.Flow(key))
		began := time.Now()
		if n, err := io.CopyN(w, struct{ io.Reader }{file}, 60*kB); n != 60*kB || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if took := time.Since(began); took < 20*time.Millisecond || took > 30*time.Millisecond {
			t.Errorf("60 kB took %v", took)
		}
		if file.Len() != 40*kB {
			t.Errorf("%d bytes are left of the source", file.Len())
		}
		if n, err := io.Copy(w, struct{ io.Reader }{file}); n != 40*kB || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if sink.String() != text {
			t.Error("other bytes were written than read")
		}
		for _, r := range sink.sources {
			if r != (struct{ io.Reader }{file}) {
				t.Fatalf("it was given %T", r)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if got, want := used(t, s, l, key), 100*kB-time.Since(began).Microseconds(); got != want {
			t.Errorf("%d bytes are missing, not %d", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var plain bytes.Buffer
		w := bandwidth.NewWriter(t.Context(), struct{ io.Writer }{&plain}, flow(t, sluice.PerSecond(1*mB)))
		began := time.Now()
		if n, err := w.ReadFrom(strings.NewReader(strings.Repeat("x", 130*kB))); n != 130*kB || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > 100*time.Millisecond+bandwidth.ChunkTime {
			t.Errorf("130 kB took %v", took)
		}
	})
}

// failing is a store that does not decide, or refuses.
type failing struct {
	sluice.Store
	answer sluice.Decision
	err    error
	asked  int
	// opens is when it lets pass.
	opens time.Time
}

func (s *failing) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	s.asked++
	if !s.opens.IsZero() && !time.Now().Before(s.opens) {
		return sluice.Decision{Allowed: true}, nil
	}
	return s.answer, s.err
}

func (*failing) Settle(context.Context, sluice.Charge, int64) error { return nil }

// TestStoreErrors fails what the store does not decide, or lets it pass.
func TestStoreErrors(t *testing.T) {
	down := errors.New("the store is down")
	for name, make := range movers {
		s := &failing{err: down}
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		if _, err := make(t.Context(), 1*kB, l.Flow(key))(); !errors.Is(err, down) {
			t.Errorf("%s: %v", name, err)
		}
		told := 0
		l = limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB), OnStoreError: func(_ context.Context, err error) error {
			if !errors.Is(err, down) {
				t.Errorf("%s: told of %v", name, err)
			}
			told++
			return nil
		}})
		move := make(t.Context(), 1*kB, l.Flow(key))
		for range 3 {
			if n, err := move(); n != 1*kB || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if told != 3 {
			t.Errorf("%s: told %d times", name, told)
		}
		s.err, s.answer = nil, sluice.Decision{Reason: sluice.ReasonTableFull}
		l = limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		var refused *bandwidth.RefusedError
		if _, err := make(t.Context(), 1*kB, l.Flow(key))(); !errors.As(err, &refused) || refused.Reason != sluice.ReasonTableFull {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStandIn paces by what stands in for a store that is down: at the share of this process,
// which holds less than a chunk, or not at all.
func TestStandIn(t *testing.T) {
	down := &failing{err: errors.New("the store is down")}
	rate := sluice.PerSecond(1 * mB)
	for name, make := range movers {
		synctest.Test(t, func(t *testing.T) {
			s, err := guard.New(guard.Options{Store: down, Inline: true, Local: store(t), Share: guard.Share{Of: 1, Parts: 4}})
			if err != nil {
				t.Fatal(err)
			}
			seen := newTrace()
			move := make(t.Context(), 8*kB, limiter(t, bandwidth.Options{Store: s, Rate: rate}).Flow(key))
			for time.Since(seen.began) < 2*time.Second {
				n, err := move()
				if err != nil {
					t.Fatal(err)
				}
				seen.add(n)
			}
			if got, want := float64(seen.sum), in(rate, time.Since(seen.began))/4; got < 0.98*want || got > 1.02*want {
				t.Errorf("%s: %.0f bytes; a fourth of the rate gives %.0f", name, got, want)
			}
		})
		s, err := guard.New(guard.Options{Store: down, Inline: true, Local: store(t), Fallback: func(*sluice.Limit) guard.Fallback { return guard.Deny }})
		if err != nil {
			t.Fatal(err)
		}
		var refused *bandwidth.RefusedError
		_, err = make(t.Context(), 8*kB, limiter(t, bandwidth.Options{Store: s, Rate: rate}).Flow(key))()
		if !errors.As(err, &refused) || refused.Reason != sluice.ReasonStoreError {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusedForNow comes back when a store says so.
func TestRefusedForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failing{
			answer: sluice.Decision{Reason: sluice.ReasonLimited, RetryAfter: time.Second},
			opens:  time.Now().Add(2500 * time.Millisecond),
		}
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		began := time.Now()
		if n, err := bandwidth.NewWriter(t.Context(), io.Discard, l.Flow(key)).Write(buffer(9)); n != 9 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if d := time.Since(began); d != 3*time.Second || s.asked != 4 {
			t.Errorf("it took %v and %d questions", d, s.asked)
		}
	})
}

// TestAsksSeldom counts the questions to the store: one a chunk.
func TestAsksSeldom(t *testing.T) {
	for name, make := range movers {
		s := &failing{answer: sluice.Decision{Allowed: true}}
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(100 * mB)})
		move := make(t.Context(), 1000, l.Flow(key))
		for range 10_000 {
			if _, err := move(); err != nil {
				t.Fatal(err)
			}
		}
		// 10 MB, and 2 MB a chunk; the first pays for itself. A test that is held up asks once more.
		if s.asked < 6 || s.asked > 15 {
			t.Errorf("%s: asked %d times", name, s.asked)
		}
	}
}

// TestOptions names what is wrong with options.
func TestOptions(t *testing.T) {
	for want, o := range map[string]bandwidth.Options{
		"bandwidth: Options.Store is missing": {Rate: sluice.PerSecond(1)},
		"bandwidth: sluice: limit \"downloads\": Rate is missing": {
			Store: store(t), Name: "downloads",
		},
		"Rate has the period -1s":      {Store: store(t), Rate: sluice.Per(1, -time.Second)},
		"Rate is -1 units a period":    {Store: store(t), Rate: sluice.PerSecond(-1)},
		"the most is 9007199254740992": {Store: store(t), Rate: sluice.PerSecond(1 << 60)},
	} {
		_, err := bandwidth.NewLimiter(o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
	l := limiter(t, bandwidth.Options{Name: "downloads", Rate: sluice.PerSecond(1 * mB)})
	if l.Limit().Name() != "downloads" || l.Rate() != sluice.PerSecond(1*mB) || l.Flow(key).IsZero() || !(bandwidth.Flow{}).IsZero() {
		t.Errorf("%v", l.Limit())
	}
}
