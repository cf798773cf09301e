package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
)

// Calls wait in a queue. A call whose deadline is too near is refused at once, with the wait.
func TestCallsWaitInAQueue(t *testing.T) {
	conn := serve(t, &service{}, limited(t, keyed(sluice.LeakyBucket{Rate: sluice.PerSecond(20), Queue: 4}), grpclimit.ServerOptions{}))
	began := time.Now()
	for range 3 {
		want(t, call(t.Context(), conn), codes.OK)
	}
	if took := time.Since(began); took < 95*time.Millisecond {
		t.Errorf("three calls took %v at 20/s", took)
	}

	conn = serve(t, &service{}, limited(t, keyed(sluice.LeakyBucket{Rate: sluice.PerHour(2), Queue: 4}), grpclimit.ServerOptions{MaxDelay: 2 * time.Hour}))
	want(t, call(t.Context(), conn), codes.OK)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began = time.Now()
	err := call(ctx, conn)
	want(t, err, codes.ResourceExhausted)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the call was refused after %v", took)
	}
	if wait, _ := grpclimit.RetryDelay(err); wait < 29*time.Minute || wait > 30*time.Minute {
		t.Errorf("the wait is %v", wait)
	}
}

// A call whose client leaves while it waits is not handled, and its units go back.
func TestCanceledWhileWaiting(t *testing.T) {
	var handled int
	s := must(grpclimit.NewServer(keyed(sluice.LeakyBucket{Rate: sluice.PerHour(2), Queue: 4}), grpclimit.ServerOptions{MaxDelay: 2 * time.Hour}))
	conn := serve(t, &service{create: func(_ context.Context, in *text) (*text, error) {
		handled++
		return in, nil
	}}, s.Options())
	want(t, call(t.Context(), conn), codes.OK)
	for range 8 { // more than the queue holds, so the room comes back
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- call(ctx, conn) }()
		eventually(t, "the call waits", func() bool { return s.Waiting() == 1 })
		cancel()
		want(t, <-done, codes.Canceled)
		eventually(t, "the call has left the queue", func() bool { return s.Waiting() == 0 })
	}
	if handled != 1 {
		t.Errorf("%d calls were handled", handled)
	}
}

// Waiting calls are bounded.
func TestQueueBound(t *testing.T) {
	s := must(grpclimit.NewServer(keyed(sluice.LeakyBucket{Rate: sluice.PerHour(2), Queue: 9}), grpclimit.ServerOptions{MaxDelay: 9 * time.Hour, MaxWaiting: 1}))
	conn := serve(t, &service{}, s.Options())
	want(t, call(t.Context(), conn), codes.OK)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx, conn) }()
	eventually(t, "a call waits", func() bool { return s.Waiting() == 1 })
	err := call(t.Context(), conn)
	want(t, err, codes.Unavailable)
	cancel()
	<-done
}
