package logfile

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// output takes lines, unless a test lets it fail or hang.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	most  int // bytes of the next write, if err is set
	err   error
	hangs chan struct{} // closed when it takes lines; nil for at once
}

func (o *output) set(most int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.most, o.err = most, err
}

func (o *output) Write(p []byte) (int, error) {
	if o.hangs != nil {
		<-o.hangs
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		n := min(o.most, len(p))
		o.text.Write(p[:n])
		return n, o.err
	}
	o.text.Write(p)
	return len(p), nil
}

var errTest = errors.New("no space")

// TestFailedLinesAreTriedAgain: a caller gets the error, and the line is written later, once and in order.
func TestFailedLinesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{}
		failures := 0
		q := NewQueue(out, func(error) { failures++ })
		if err := q.Write([]byte("one\n"), time.Second); err != nil {
			t.Error(err)
		}
		out.set(0, errTest)
		if err := q.Write([]byte("two\n"), time.Second); !errors.Is(err, errTest) {
			t.Errorf("the error is %v", err)
		}
		q.Put([]byte("three\n"))
		synctest.Wait()
		if q.Waiting() != 2 || failures < 2 {
			t.Errorf("%d lines wait after %d failures", q.Waiting(), failures)
		}
		out.set(len("two\nth"), errTest) // the output takes one line and a part
		q.Put([]byte("four\n"))
		synctest.Wait()
		if q.Waiting() != 2 {
			t.Errorf("%d lines wait, want 2", q.Waiting())
		}
		out.set(0, nil)
		<-time.After(retry)
		synctest.Wait()
		if q.Waiting() != 0 || q.Lost() != 0 {
			t.Errorf("%d lines wait, %d are lost", q.Waiting(), q.Lost())
		}
		if !q.Close(time.Second) {
			t.Error("it does not close")
		}
		if got := out.text.String(); got != "one\ntwo\nththree\nfour\n" {
			t.Errorf("the output has %q", got)
		}
	})
}

// TestNobodyWaitsForAnOutputThatHangs: the bounds hold while a write never ends, and the lines come afterwards.
func TestNobodyWaitsForAnOutputThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{hangs: make(chan struct{})}
		q := NewQueue(out, func(err error) { t.Error(err) })
		began := time.Now()
		if err := q.Write([]byte("one\n"), time.Second); !errors.Is(err, ErrSlow) || time.Since(began) != time.Second {
			t.Errorf("after %v, the error is %v", time.Since(began), err)
		}
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range mostQueued/len(line) + 10 {
			q.Put(line)
		}
		if err := q.Write(line, time.Second); !errors.Is(err, ErrFull) {
			t.Errorf("the error of a full queue is %v", err)
		}
		lost := q.Lost()
		if lost < 11 || q.Waiting()*len(line) > 1<<20 {
			t.Errorf("%d lines wait and %d are lost, want no more than a mebibyte that waits", q.Waiting(), lost)
		}
		if q.Close(time.Second) {
			t.Error("it closes while a write is under way")
		}
		close(out.hangs)
		if !q.Close(time.Second) {
			t.Error("it does not close")
		}
		if q.Put(line); q.Lost() != lost+1 {
			t.Errorf("after the end %d lines are lost", q.Lost())
		}
		want := "one\n" + strings.Repeat(string(line), mostQueued/len(line)-1)
		if got := out.text.String(); got != want {
			t.Errorf("the output has %d bytes, want %d", len(got), len(want))
		}
	})
}
