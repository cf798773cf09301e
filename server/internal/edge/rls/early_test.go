package rls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestEarlyContextsAreContexts checks that an early context is a context: with and without a call of Done, and below other contexts.
func TestEarlyContextsAreContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, x := range []struct {
			name  string
			wait  time.Duration // before the first call of Done; 0 for none
			leave bool          // the caller leaves at once
			want  error
			after time.Duration
		}{
			{"at the deadline", 0, false, context.DeadlineExceeded, 75 * time.Millisecond},
			{"after the deadline", 80 * time.Millisecond, false, context.DeadlineExceeded, 80 * time.Millisecond},
			{"the caller leaves", 0, true, context.Canceled, 0},
		} {
			began := time.Now()
			call, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
			e := &early{Context: call, deadline: began.Add(75 * time.Millisecond)}
			if err := e.Err(); err != nil {
				t.Errorf("%s: it has ended at its begin: %v", x.name, err)
			}
			if x.leave {
				leave()
			}
			<-time.After(x.wait)
			if err := e.Err(); (err != nil) != (x.leave || x.wait > 0) || err != nil && !errors.Is(err, x.want) {
				t.Errorf("%s: without Done: %v", x.name, err)
			}
			below, cancel := context.WithCancel(e)
			<-below.Done()
			if took := time.Since(began); took != x.after || !errors.Is(e.Err(), x.want) || !errors.Is(below.Err(), x.want) {
				t.Errorf("%s: %v after %v, and %v below; want %v after %v", x.name, e.Err(), took, below.Err(), x.want, x.after)
			}
			cancel()
			leave()
			e.end()
		}
	})
}

// The end of the decision ends the context, and so its timer, if there is one.
func TestEarlyEnds(t *testing.T) {
	unused := &early{Context: t.Context(), deadline: time.Now().Add(time.Hour)}
	unused.end()
	if err := unused.Err(); err != nil {
		t.Errorf("without Done: %v", err)
	}
	used := &early{Context: t.Context(), deadline: time.Now().Add(time.Hour)}
	done := used.Done()
	used.end()
	select {
	case <-done:
	default:
		t.Error("the timer runs on when the decision has been made")
	}
	if err := used.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("with Done: %v", err)
	}
}
