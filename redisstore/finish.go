package redisstore

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// How finish.lua ends a charge.
const (
	finishCancel = iota + 1
	finishSettle
	finishRelease
	finishUndo
)

// Cancel gives back what a charge took. See sluice.Store.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) Cancel(ctx context.Context, c sluice.Charge) error {
	if err := translate.CheckCancel(&c); err != nil {
		return err
	}
	if translate.IsHold(c.Receipt.Over) {
		return sluice.ErrActed
	}
	acts := s.limits.get(c.Limit).params.Acts(algo.Charge{Cost: c.Cost, At: c.Receipt.At, Over: c.Receipt.Over})
	found, err := s.finish(ctx, &c, finishCancel, min(acts, exact), 0)
	if err == nil && !found {
		return sluice.ErrActed
	}
	return err
}

// Settle replaces the cost of a charge by the actual one. See sluice.Store.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	if err := translate.CheckSettle(&c, actual); err != nil {
		return err
	}
	switch s.limits.get(c.Limit).params.Kind {
	case algo.KindBucket, algo.KindWarmBucket, algo.KindLeaky:
		actual = min(actual, algo.MaxUnits) // before the difference is taken, as in package algo
	default:
		actual = min(actual, 2*exact) // exceeds any cost by more than can be counted
	}
	// Scripts count the difference exactly only of smaller numbers.
	if more := actual - exact; more > 0 && more < c.Cost {
		c.Cost, actual = c.Cost-more, exact
	}
	_, err := s.finish(ctx, &c, finishSettle, actual, 0)
	return err
}

// Release ends a lease. See sluice.Store.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	if err := translate.CheckRelease(&c); err != nil {
		return err
	}
	found, err := s.finish(ctx, &c, finishRelease, int64(latency/time.Microsecond), 0)
	if err == nil && !found {
		return sluice.ErrLeaseLost
	}
	return err
}

// Reset deletes the state of a limit's key, and its ban. The units that processes hold of the
// key stay in escrow. After an error both stay, unless it wraps sluice.ErrUnknownOutcome.
func (s *Store) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	if l == nil {
		return &sluice.RequestError{Problem: "has no limit"}
	}
	known := s.limits.get(l)
	sc := resetScripts.get(1<<known.params.Kind, resetFiles)
	stem := s.names.stem(k)
	keys := []string{stem + known.state, stem + known.ban}
	if l.TakesDebits() {
		keys = append(keys, stem+holdsWord+known.state)
	}
	_, err := s.run(ctx, sc, keys, []string{known.blob})
	return err
}

// finish ends a charge. The number is the last moment for a cancellation, the actual cost of a settlement, or the
// latency of a released lease. Over replaces the identity of a hold in the receipt. finish returns false for a
// cancellation that came too late, and for a lease that is gone.
func (s *Store) finish(ctx context.Context, c *sluice.Charge, what, number int64, over uint64) (bool, error) {
	l := s.limits.get(c.Limit)
	keys := []string{s.stateKey(l, c.Key)}
	how := string(appendInt(appendInt(nil, what), number))
	args := []string{l.blob, "", how}
	if hold := c.Receipt.Over; translate.IsHold(hold) {
		held := *c
		held.Receipt.Over = over
		c, keys, args = &held, append(keys, s.names.stem(c.Key)+holdsWord+l.state), append(args, holdText(hold))
	}
	args[1] = l.charge(c, s.bounds(l, c.Receipt.At))
	sc := finishScripts.get(1<<l.params.Kind, finishFiles)
	reply, err := s.run(ctx, sc, keys, args)
	if now, ok := outside(err); ok {
		args[1] = l.charge(c, l.bounds(c.Receipt.At, now))
		reply, err = s.run(ctx, sc, keys, args)
	}
	if err != nil {
		return false, err
	}
	return readFound(reply)
}

// holdText returns the identity of a hold as the scripts have it.
func holdText(hold uint64) string { return string(binary.BigEndian.AppendUint64(nil, hold)) }

// readFound reads a reply that has the server's time, and whether something was found.
func readFound(reply string) (bool, error) {
	in := reader{rest: reply}
	in.count() // the time
	found := in.count() == 1
	if in.err != nil {
		return false, unknown(in.err)
	}
	return found, nil
}

// charge returns a charge as the scripts read it.
func (l *limit) charge(c *sluice.Charge, bounds []int64) string {
	den := uint64(1)
	if f := kinds[l.params.Kind].den; f != nil {
		den = f(l.params)
	}
	b := make([]byte, 0, 64)
	b = appendInt(b, min(c.Cost, tooMany))
	b = appendInt(b, min(c.Floor, tooMany))
	b = appendInt(b, max(0, min(c.Receipt.At, exact)))
	b = appendInt(b, int64(min(c.Receipt.Over/den, exact)))
	b = appendInt(b, int64(c.Receipt.Over%den))
	b = appendMember(b, c.Member)
	for _, n := range bounds {
		b = appendInt(b, n)
	}
	return string(b)
}

// maxUndo bounds the keys that are undone in parallel.
const maxUndo = 64

// undo gives back all charges of a batch, because nobody has acted upon them. It undoes keys
// in parallel, because the caller waits. It reports whether all charges are undone.
func (s *Store) undo(ctx context.Context, b *batch) bool {
	var keys []int
	byKey := make(map[int][]int)
	for i := range b.rs {
		if r := &b.rs[i]; r.Peek || r.Shadow || r.Debit || r.Cost == 0 || b.renewed(i) {
			continue
		}
		key := b.at[i].state
		if byKey[key] == nil {
			keys = append(keys, key)
		}
		byKey[key] = append(byKey[key], i)
	}
	var all sync.WaitGroup
	var next atomic.Int64
	var kept atomic.Bool
	for range min(len(keys), maxUndo) {
		all.Go(func() {
			for n := next.Add(1); int(n) <= len(keys); n = next.Add(1) {
				if !s.undoKey(ctx, b, byKey[keys[n-1]]) {
					kept.Store(true)
				}
			}
		})
	}
	all.Wait()
	return !kept.Load()
}

// undoKey gives back what some requests of a batch have charged, all for one key. It reports
// whether the server has undone all of it. What is not undone stays charged: the limits admit
// too little, never too much.
func (s *Store) undoKey(ctx context.Context, b *batch, of []int) bool {
	var charged [1]sluice.Decision
	done := true
	one := batch{now: b.now, all: true}
	for _, i := range slices.Backward(of) { // later charges depend on earlier ones
		one.rs, one.requests, one.limits, one.views = b.rs[i:i+1], b.requests[i:i+1], b.limits[i:i+1], b.views[i:i+1]
		if b.holds != nil {
			one.holds = b.holds[i : i+1]
		}
		if one.decisions(charged[:], true) != nil {
			done = false
			continue
		}
		c := b.rs[i].Charge(&charged[0])
		over := uint64(0)
		if p := b.limits[i].params; p.Kind == algo.KindBucket {
			over = b.missing(i) // instead of the ticks that it waits for
			if !translate.IsHold(c.Receipt.Over) {
				c.Receipt.Over = over
			}
		}
		if _, err := s.finish(ctx, &c, finishUndo, 0, over); err != nil {
			done = false
		}
	}
	return done
}

// renewed reports whether a request has renewed a lease that its member held before.
func (b *batch) renewed(i int) bool {
	p := b.limits[i].params
	if p.Kind != algo.KindConcurrency {
		return false
	}
	in := reader{rest: b.views[i].text}
	_, words := leasesKind.read(&in, p)
	return p.Conc.Holds(words, b.rs[i].Member)
}

// missing returns the ticks that were missing from a bucket before the charge.
func (b *batch) missing(i int) uint64 {
	l := b.limits[i]
	in := reader{rest: b.views[i].text}
	state, _ := bucketKind.read(&in, l.params)
	if held, ok := l.held(in.rest); ok {
		missing := l.params.Bucket.Missing(state, b.now)
		return missing - min(missing, held)
	}
	if b.views[i].text != "" && in.rest != l.blob {
		from, old, _, err := bucketKind.origin.read(b.views[i].text, l.params, l.count)
		if err != nil {
			return 0 // decisions has reported it
		}
		state, _ = convert(l.params, &from, old, nil, b.now)
	}
	return l.params.Bucket.Missing(state, b.now)
}
