package gate_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// pacedEdge returns an edge with one rule that has a bandwidth and one rule without.
func pacedEdge(tb testing.TB, store sluice.Store, b policy.Bandwidth, fallback sluice.Fallback) *edge {
	tb.Helper()
	return newEdge(tb, store, gate.Options{},
		policy.Rule{Name: "paced", Bandwidth: &b, OnStoreError: fallback},
		policy.Rule{Name: "plain", Limits: limit(sluice.TokenBucket{Rate: sluice.PerSecond(100)})})
}

// flowsOf returns flows in a store, or fails the test.
func flowsOf(t *testing.T, store sluice.Store, onError func(context.Context, error)) *gate.Flows {
	t.Helper()
	f, err := gate.NewFlows(store, gate.FlowOptions{OnError: onError})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFlowsWithoutAStore(t *testing.T) {
	if f, err := gate.NewFlows(nil, gate.FlowOptions{}); f != nil || err == nil {
		t.Errorf("got %v, %v", f, err)
	}
}

// TestEachDirectionHasItsRate checks that each direction has its rate per key: all requests of the key share it,
// and it continues when rules are reloaded.
func TestEachDirectionHasItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		b := policy.Bandwidth{Down: sluice.PerSecond(1_000_000), Up: sluice.PerSecond(500_000)}
		flows := flowsOf(t, store, func(_ context.Context, err error) { t.Error(err) })
		move := func(f []bandwidth.Flow, bytes int64) time.Duration {
			began := time.Now()
			w := bandwidth.NewWriter(t.Context(), io.Discard, f...)
			if _, err := w.Write(make([]byte, bytes)); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		for i, c := range []struct {
			key  string
			up   bool
			want time.Duration
		}{
			{"a", false, 970 * time.Millisecond}, // with the burst
			{"a", false, time.Second},
			{"b", false, 970 * time.Millisecond},
			{"b", true, 1970 * time.Millisecond},
			{"b", true, 2 * time.Second},
		} {
			e := pacedEdge(t, store, b, sluice.FallbackDefault) // as after a reload
			v := e.decide(t.Context(), c.key)
			down, up := flows.Of(t.Context(), &v)
			if len(down) != 1 || len(up) != 1 {
				t.Fatalf("%d: %d flows down, %d up", i, len(down), len(up))
			}
			f := down
			if c.up {
				f = up
			}
			if took := move(f, 1_000_000); took != c.want {
				t.Errorf("%d: a megabyte of %q took %v, not %v", i, c.key, took, c.want)
			}
		}
	})
}

// TestFlowsOneWay paces only the direction that has a rate.
func TestFlowsOneWay(t *testing.T) {
	store := bubbleStore(t)
	e := pacedEdge(t, store, policy.Bandwidth{Up: sluice.PerSecond(1000)}, sluice.FallbackDefault)
	v := e.decide(t.Context(), "a")
	down, up := flowsOf(t, store, nil).Of(t.Context(), &v)
	if len(down) != 0 || len(up) != 1 {
		t.Errorf("%d flows down, %d up", len(down), len(up))
	}
	if down, up := flowsOf(t, store, nil).Of(t.Context(), &policy.Verdict{}); down != nil || up != nil {
		t.Error("a request that matched no rule has flows")
	}
}

// TestFlowsStoreError lets bytes through or stops them when the store is down, as the rule's
// fallback sets, and reports the error.
func TestFlowsStoreError(t *testing.T) {
	down := errors.New("the store is down")
	for fallback, want := range map[sluice.Fallback]error{sluice.FallbackDefault: nil, sluice.FallbackDeny: down} {
		store := &brokenStore{Store: bubbleStore(t)}
		e := pacedEdge(t, store, policy.Bandwidth{Down: sluice.PerSecond(1000)}, fallback)
		v := e.decide(t.Context(), "a")
		var reported []error
		f, _ := flowsOf(t, store, func(_ context.Context, err error) { reported = append(reported, err) }).Of(t.Context(), &v)
		store.err = down
		if _, err := bandwidth.NewWriter(t.Context(), io.Discard, f...).Write(make([]byte, 10)); !errors.Is(err, want) {
			t.Errorf("fallback %v: the write returned %v, want %v", fallback, err, want)
		}
		if len(reported) != 1 || !errors.Is(reported[0], down) {
			t.Errorf("%v: reported %v", fallback, reported)
		}
	}
}

// brokenStore is a store that returns its error, if it has one.
type brokenStore struct {
	sluice.Store
	err error
}

func (s *brokenStore) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if s.err != nil {
		return sluice.Decision{}, s.err
	}
	return s.Store.Decide(ctx, r)
}
