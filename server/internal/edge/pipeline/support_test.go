package pipeline

import (
	"context"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// distant is a store that is called for all requests, except for those about local keys.
type distant struct {
	sluice.Store
	local func(k sluice.Key) bool
	// hold, if set, is called by each call of the store, with its requests.
	hold func(rs []sluice.Request)

	mu    sync.Mutex
	calls [][]string // the keys of each call, in the order of their ends
	near  []string   // keys that were decided locally
}

func newDistant(tb testing.TB) *distant {
	tb.Helper()
	store, err := memory.New(memory.Options{MaxBytes: 16 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &distant{Store: store}
}

func (d *distant) called(rs ...sluice.Request) {
	if d.hold != nil {
		d.hold(rs)
	}
	var keys []string
	for i := range rs {
		keys = append(keys, rs[i].Key.Text())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, keys)
}

func (d *distant) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	d.called(r)
	return d.Store.Decide(ctx, r)
}

func (d *distant) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	d.called(rs...)
	return d.Store.DecideAll(ctx, rs, out)
}

func (d *distant) DecideLocally(r sluice.Request) (decision sluice.Decision, ok bool) {
	if d.local == nil || !d.local(r.Key) {
		return decision, false
	}
	d.near = append(d.near, r.Key.Text())
	decision, err := d.Store.Decide(context.Background(), r)
	return decision, err == nil
}

func (d *distant) DecideAllLocally(rs []sluice.Request, out []sluice.Decision) bool {
	if d.local == nil || slices.ContainsFunc(rs, func(r sluice.Request) bool { return !d.local(r.Key) }) {
		return false
	}
	return d.Store.DecideAll(context.Background(), rs, out) == nil
}

// quiet is a distant store that records nothing.
type quiet struct {
	*distant
	local bool
}

func (q *quiet) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	return q.Store.Decide(ctx, r)
}

func (q *quiet) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	return q.Store.DecideAll(ctx, rs, out)
}

func (q *quiet) DecideLocally(r sluice.Request) (d sluice.Decision, ok bool) {
	if q.local {
		d, _ = q.Store.Decide(context.Background(), r)
	}
	return d, q.local
}
