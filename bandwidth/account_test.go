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
)

// TestReadersPayWithClose pays with Close for what was handed on without a turn.
func TestReadersPayWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		crowd(t, s, l, 500*kB)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := bandwidth.NewReader(ctx, source{}, l.Flow(key))
		p := make([]byte, 4*kB)
		if n, err := r.Read(p); n != len(p) || !errors.Is(err, sluice.ErrDeadline) {
			t.Errorf("the read should end with all bytes and ErrDeadline: %d, %v", n, err)
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

// TestCloseGivesBackWhatHasNotMoved gives back what was paid for and has not moved, and ends the use.
func TestCloseGivesBackWhatHasNotMoved(t *testing.T) {
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

// TestIdleConnectionsGetBytesBack gives back what was paid for when the connection moves again after a
// while, and pays for single writes what they are.
func TestIdleConnectionsGetBytesBack(t *testing.T) {
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

// TestShortWritesPayForWhatWasWritten pays for what was written, and not for the rest.
func TestShortWritesPayForWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		broken := errors.New("broken")
		w := bandwidth.NewWriter(t.Context(), &brokenWriter{room: 2500, err: broken}, l.Flow(key))
		n, err := w.Write(make([]byte, 6000))
		if n != 2500 || !errors.Is(err, broken) {
			t.Errorf("the broken write should pass on 2500 bytes: %d, %v", n, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if got := used(t, s, l, key); got != 2500 {
			t.Errorf("%d bytes are paid", got)
		}
		w = bandwidth.NewWriter(t.Context(), &brokenWriter{room: 10}, l.Flow(key))
		if n, err := w.Write(make([]byte, 60)); n != 10 || !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("the write should end with 10 bytes and ErrShortWrite: %d, %v", n, err)
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

// TestReadersHandOnTheLastBytes hands the last bytes on with the end, and pays for no more.
func TestReadersHandOnTheLastBytes(t *testing.T) {
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

// TestReadFromPassesTheSourceOn passes the source itself to the wrapped writer, without the limit around it, and
// reads no more than the limit.
func TestReadFromPassesTheSourceOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		text := strings.Repeat("0123456789", 10_000)
		file := strings.NewReader(text)
		sink := &fileSink{}
		w := bandwidth.NewWriter(t.Context(), sink, l.Flow(key))
		began := time.Now()
		if n, err := io.CopyN(w, struct{ io.Reader }{file}, 60*kB); n != 60*kB || err != nil {
			t.Errorf("copied %d of 60,000 bytes: %v", n, err)
		}
		if took := time.Since(began); took < 20*time.Millisecond || took > 30*time.Millisecond {
			t.Errorf("60 kB took %v", took)
		}
		if file.Len() != 40*kB {
			t.Errorf("%d bytes are left of the source", file.Len())
		}
		if n, err := io.Copy(w, struct{ io.Reader }{file}); n != 40*kB || err != nil {
			t.Errorf("copied %d of the last 40,000 bytes: %v", n, err)
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
			t.Errorf("copied %d of 130,000 bytes to a plain writer: %v", n, err)
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > 100*time.Millisecond+bandwidth.ChunkTime {
			t.Errorf("130 kB took %v", took)
		}
	})
}

// TestPacingOptionsAreRefused names what is wrong with options.
func TestPacingOptionsAreRefused(t *testing.T) {
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
		t.Errorf("the limit has not the options' name and rate: %v", l.Limit())
	}
}
