package rueidisstore

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/redisstore"
)

// TestCallsInDoubtLeaveTheirGoroutine is a table of what a server may do, and whether a call may still run in its
// caller's goroutine.
func TestCallsInDoubtLeaveTheirGoroutine(t *testing.T) {
	const ms = time.Millisecond
	denied := &redisstore.ServerError{Text: "NOSCRIPT"}
	l := simpleLane()
	steps := []struct {
		at   time.Duration
		note bool // note this outcome before the call
		err  error
		want bool
	}{
		{at: 0, want: false}, // nothing is known yet
		{at: 1 * ms, note: true, err: nil, want: true},
		{at: 100 * ms, want: true},
		{at: 101 * ms, want: false},                                   // no call for long
		{at: 102 * ms, note: true, err: denied, want: true},           // an error reply is a reply
		{at: 103 * ms, note: true, err: context.Canceled, want: true}, // the caller's choice
	}
	for i, s := range steps {
		if s.note {
			l.note(t.Context(), s.at, s.err)
		}
		if got := l.enter(s.at); got != s.want {
			t.Fatalf("step %d: enter is %v", i, got)
		} else if got {
			l.leave()
		}
	}

	// A failure is noted at its own time, and stays in mind.
	for _, err := range []error{io.EOF, context.DeadlineExceeded, notSent(io.EOF)} {
		l := simpleLane()
		l.note(t.Context(), 0, err)
		failed := l.now()
		l.note(t.Context(), failed+doubt-ms, nil)
		if l.enter(failed + doubt/2) {
			t.Fatalf("%v is forgotten too soon", err)
		}
		if !l.enter(failed + doubt) {
			t.Fatalf("%v is never forgotten", err)
		}
	}
}

// simpleLane returns the lane of a single server.
func simpleLane() *lane {
	l := newLane()
	l.simple = true
	return l
}

func TestLaneOfSeveralServers(t *testing.T) {
	l := newLane()
	l.note(t.Context(), 0, nil)
	if l.enter(1) {
		t.Fatal("rueidis dials in the background for several servers")
	}
}

func TestLaneIsBounded(t *testing.T) {
	l := simpleLane()
	l.note(t.Context(), 0, nil)
	for i := range maxDirect {
		if !l.enter(1) {
			t.Fatalf("no room for direct call %d", i+1)
		}
	}
	if l.enter(1) {
		t.Fatal("more direct calls than rueidis has room for")
	}
	l.leave()
	if !l.enter(1) {
		t.Fatal("a direct call that has ended still counts")
	}
}

// TestCallsPassWhileGoroutinesAreTaken is a call while all goroutines for calls are taken.
func TestCallsPassWhileGoroutinesAreTaken(t *testing.T) {
	c := &Client{lane: newLane()}
	for range maxApart {
		c.lane.apartOf(0) <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := c.callOnce(ctx, rueidis.Completed{})
	if !errors.Is(err, redisstore.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v; want that the call was not sent by its deadline", err)
	}
}

// TestFarSlotsShareNoChannel: slots that are far apart, and calls without a slot, share no channel.
func TestFarSlotsShareNoChannel(t *testing.T) {
	l := newLane()
	if l.apartOf(0) != l.apartOf(groupSlots-1) || l.apartOf(0) == l.apartOf(groupSlots) ||
		l.apartOf(16383) == l.apartOf(16384) || l.apartOf(16384) != l.apartOf(1<<15) {
		t.Error("slots do not have the channel of their group")
	}
}
