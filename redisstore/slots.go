package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// decideSlots answers requests whose keys may be in several slots of a cluster.
func (s *Store) decideSlots(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	bySlot := make(map[uint16][]int)
	for i := range rs {
		slot := slotOf(s.names.stem(rs[i].Key))
		bySlot[slot] = append(bySlot[slot], i)
	}
	if len(bySlot) == 1 {
		return s.decideSlot(ctx, rs, out)
	}
	parts := make([]part, 0, len(bySlot))
	for _, indexes := range bySlot {
		p := part{indexes: indexes, rs: make([]sluice.Request, len(indexes))}
		for j, i := range indexes {
			p.rs[j] = rs[i]
		}
		parts = append(parts, p)
	}
	each(parts, func(p *part) { p.batch, p.err = s.ask(ctx, p.rs) })
	allowed := true
	var failed []error
	for i := range parts {
		if parts[i].err != nil {
			failed = append(failed, parts[i].err)
		} else {
			allowed = allowed && parts[i].batch.all
		}
	}
	given := failed == nil && allowed || s.giveBack(ctx, parts)
	if failed != nil {
		err := errors.Join(failed...)
		if !given || slices.ContainsFunc(parts, func(p part) bool { return p.err == nil && p.batch.lasts() }) {
			err = unknown(err)
		}
		if denied := denials(parts); len(denied) > 0 {
			err = &sluice.DenialError{Denied: denied, Err: err}
		}
		return err
	}
	for i := range parts {
		p := &parts[i]
		answers := make([]sluice.Decision, len(p.rs))
		if err := p.batch.answer(answers, allowed); err != nil {
			return err
		}
		for j, i := range p.indexes {
			out[i] = answers[j]
		}
	}
	return nil
}

// denials returns those that are certain, of the parts that were answered.
func denials(parts []part) map[int]sluice.Decision {
	denied := map[int]sluice.Decision{}
	for _, p := range parts {
		answers := make([]sluice.Decision, len(p.rs))
		if p.err != nil || p.batch.all || p.batch.answer(answers, false) != nil {
			continue
		}
		for j, i := range p.indexes {
			if !answers[j].Allowed && !p.rs[j].Shadow {
				denied[i] = answers[j]
			}
		}
	}
	return denied
}

// part is the requests of a batch that are in one slot.
type part struct {
	indexes []int
	rs      []sluice.Request
	batch   *batch
	err     error
}

// each runs f for all parts at once.
func each(parts []part, f func(p *part)) {
	var all sync.WaitGroup
	for i := range parts[1:] {
		all.Go(func() { f(&parts[i+1]) })
	}
	f(&parts[0])
	all.Wait()
}

// What is given back when the decision's time is over.
const (
	maxLate  = 16          // batches at once
	lateTime = time.Second // for each
)

// giveBack undoes the parts that were charged, and reports whether all of them are. Where
// the context ends before, as when another slot has not answered, that goes on by itself for a
// moment, for a bounded number of batches: beyond, too little is admitted.
func (s *Store) giveBack(ctx context.Context, parts []part) bool {
	if !slices.ContainsFunc(parts, func(p part) bool { return p.err == nil && p.batch.all }) {
		return true
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTime)
	done := make(chan bool, 1)
	go func() {
		defer cancel()
		done <- s.undoParts(own, parts)
	}()
	select {
	case given := <-done:
		return given
	case <-ctx.Done():
	}
	select {
	case s.late <- struct{}{}:
		go func() {
			<-done
			<-s.late
		}()
	default:
		cancel()
	}
	return false
}

// undoParts undoes the parts that were charged.
func (s *Store) undoParts(ctx context.Context, parts []part) bool {
	var kept atomic.Bool
	each(parts, func(p *part) {
		if p.err == nil && p.batch.all && !s.undo(ctx, p.batch) {
			kept.Store(true)
		}
	})
	return !kept.Load()
}
