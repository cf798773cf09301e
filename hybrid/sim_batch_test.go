package hybrid

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// newBatch makes a batch of a process, which is locked, or returns nil for a single request. With many keys, a
// batch has most of them. Many batches have a key several times, some a peek or a shadow.
func (w *world) newBatch(n *node) []sluice.Request {
	c := n.chance
	if w.keys == 1 && (!w.corrections || c.IntN(8) > 0) {
		return nil
	}
	most := w.keys
	if w.keys <= fewRequests {
		most = 1 + c.IntN(w.keys)
	}
	var rs []sluice.Request
	for _, i := range c.Perm(w.keys)[:most] {
		rs = append(rs, w.newRequest(n, w.ledgers[i]))
	}
	for range c.IntN(8) / 4 * c.IntN(8) { // often none
		rs = append(rs, w.newRequest(n, w.ledgers[c.IntN(w.keys)]))
	}
	if c.IntN(6) == 0 {
		rs[c.IntN(len(rs))].Shadow = true
	}
	if c.IntN(6) == 0 {
		rs[c.IntN(len(rs))].Peek = true
	}
	return rs
}

// requestAll decides a batch of a process.
func (w *world) requestAll(n *node, store *Store, rs []sluice.Request) {
	out := make([]sluice.Decision, len(rs))
	if store.DecideAllLocally(rs, out) {
		w.mu.Lock()
		w.batches++
		w.mu.Unlock()
		w.decidedAll(n, store, rs, out)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if store.DecideAll(ctx, rs, out) == nil {
			w.decidedAll(n, store, rs, out)
		}
	}()
}

// decidedAll handles the decisions of a batch, and checks that all requests but debits were charged, or none.
func (w *world) decidedAll(n *node, store *Store, rs []sluice.Request, out []sluice.Decision) {
	allowed := true
	for i := range rs {
		allowed = allowed && (out[i].Allowed || rs[i].Shadow)
	}
	counted := map[sluice.Key]bool{}
	for i := range rs {
		r, d := &rs[i], &out[i]
		if charged := d.Receipt != (sluice.Receipt{}); !r.Peek && !r.Shadow && charged != (allowed || r.Debit && d.Allowed) {
			w.fail("request %d of %d of a batch is charged: %v; the batch is allowed: %v", i, len(rs), charged, allowed)
		}
		if !d.Allowed && (counted[r.Key] || r.Shadow) {
			continue // it may be denied because of earlier requests, or of the others
		}
		counted[r.Key] = true
		w.decided(n, r, d)
	}
	for i := range rs {
		w.correct(n, store, &rs[i], &out[i])
	}
}

// correct settles some charges for less, later, and cancels some local ones at once.
func (w *world) correct(n *node, store *Store, r *sluice.Request, d *sluice.Decision) {
	if !w.corrections || r.Peek || !d.Allowed || d.Receipt == (sluice.Receipt{}) {
		return
	}
	n.mu.Lock()
	c := n.chance
	what, actual, pause := c.IntN(8), c.Int64N(r.Cost), time.Duration(c.ExpFloat64()*float64(w.limit.Hybrid().Sync))
	n.mu.Unlock()
	charge, at := r.Charge(d), w.counted(r.Key, d.Receipt)
	end := func(actual int64, f func() error) {
		w.refund(r.Key, r.Cost-actual, at)
		if err := f(); err != nil && !errors.Is(err, sluice.ErrClosed) {
			w.fail("a correction: %v", err)
		}
	}
	switch {
	case what == 0 && local(d.Receipt):
		end(0, func() error { return store.Cancel(context.Background(), charge) })
	case what <= 3:
		go func() {
			pass(pause)
			end(actual, func() error { return store.Settle(context.Background(), charge, actual) })
		}()
	}
}

// counted returns the time at which the bounds count a charge: now, if the charge is local.
func (w *world) counted(k sluice.Key, r sluice.Receipt) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.ledger(k)
	if local(r) {
		return l.bound.counts(w.serverTime())
	}
	return l.charged[r.At]
}

// refund takes back units of a charge that counts at a time. The store may give back less.
func (w *world) refund(k sluice.Key, units, counted int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.ledger(k)
	l.refund = time.Now()
	w.refunded += units
	l.bound.refund(units, counted, w.serverTime())
	l.plain.refund(units, counted, w.serverTime())
}

// corrected reports whether a denial may be older than a refund, or the store may have refunded less. The world
// is locked.
func (w *world) corrected(k sluice.Key) bool {
	if !w.corrections {
		return false
	}
	_, log := w.limit.Algorithm().(sluice.SlidingLog)
	return log || time.Since(w.ledger(k).refund) < 2*time.Duration(longestDenial)+6*w.weather.trip
}
