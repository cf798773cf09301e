package remote

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
)

// silentRedis is a client of a Redis that does not answer. Scripts end with their contexts, and it keeps how long the last one took.
type silentRedis struct {
	redisstore.Client
	took chan time.Duration
}

func (c silentRedis) EvalSHA(ctx context.Context, _ string, _, _ []string) (string, error) {
	began := time.Now()
	<-ctx.Done()
	c.took <- time.Since(began)
	return "", ctx.Err()
}

// A call about records returns at the end of its context, and its client has at least the time of a decision.
func TestCallsAboutRecordsHaveTheTimeOfADecision(t *testing.T) {
	for name, tt := range map[string]struct{ own, deadline, returns, ends time.Duration }{
		"decisions have less time": {2 * time.Second, 50 * time.Millisecond, 2 * time.Second, 2 * time.Second},
		"decisions have more time": {2 * time.Second, 20 * time.Second, 2 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := silentRedis{took: make(chan time.Duration, 1)}
				store, err := redisstore.New(client, redisstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				r := records{calls: new(calls), space: "s", patience: tt.deadline}
				r.calls.to.Store(store)
				for _, call := range []func(context.Context) error{
					func(ctx context.Context) error { _, err := r.RecordsOf(ctx, []string{"a"}); return err },
					func(ctx context.Context) error {
						_, err := r.PutRecords(ctx, []redisstore.Record{{Name: "a"}})
						return err
					},
					func(ctx context.Context) error {
						_, err := r.RecordsSince(ctx, redisstore.RecordMark{}, 1)
						return err
					},
				} {
					ctx, cancel := context.WithTimeout(t.Context(), tt.own)
					began := time.Now()
					err := call(ctx)
					cancel()
					if took := time.Since(began); took != tt.returns || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, sluice.ErrUnknownOutcome) {
						t.Errorf("the call returned after %v with %v, want %v and an unknown outcome", took, err, tt.returns)
					}
					if took := <-client.took; took != tt.ends {
						t.Errorf("the client had %v for the call, want %v", took, tt.ends)
					}
				}
			})
		})
	}
}

// A client of Redis keeps a connection that is silent at least as long as a decision may wait for it.
func TestSilentConnectionsOutlastTheDeadline(t *testing.T) {
	for deadline, want := range map[time.Duration]time.Duration{50 * time.Millisecond: 10 * time.Second, 20 * time.Second: 20 * time.Second} {
		f := Default()
		f.Deadline = deadline
		o, err := clientOptions(&f)
		if err != nil || o.ConnWriteTimeout != want {
			t.Errorf("with a deadline of %v, connections may be silent for %v, %v; want %v", deadline, o.ConnWriteTimeout, err, want)
		}
	}
}
