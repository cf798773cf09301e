package hybrid

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// remember keeps the server's data for a failover.
func (w *world) remember(i int) {
	data := w.server.Data()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := past{data: data}
	for _, l := range w.ledgers {
		p.sums = append(p.sums, l.sums)
	}
	w.past[i] = p
}

// strike lets a fault happen.
func (w *world) strike(i int, f fault) {
	n := w.nodes[f.node]
	now := time.Now()
	w.add(event{node: f.node, what: strikes, fault: f})
	switch f.what {
	case partition:
		n.link.set(func(l *link) {
			switch l.chance.IntN(3) {
			case 0:
				l.mute = now.Add(f.long)
			case 1:
				l.deaf = now.Add(f.long)
			default:
				l.mute, l.deaf = now.Add(f.long), now.Add(f.long)
			}
		})
	case crash:
		w.crash(n)
	case pause:
		n.link.set(func(l *link) { l.paused = now.Add(f.long) })
	case suspend:
		w.slept.Add(int64(f.long))
		w.ahead.Add(f.long.Microseconds())
	case failover, restarting:
		w.failOver(i)
	case jump:
		w.jump(f.long)
	case resetting:
		l := w.ledgers[i%len(w.ledgers)]
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			if err := n.store.Reset(ctx, n.limit, l.key); err != nil && !errors.Is(err, sluice.ErrUnknownOutcome) && !errors.Is(err, errRefused) {
				w.fail("the reset: %v", err)
			}
		}()
	case change:
		w.change(n)
	}
}

// crash ends a process and starts it again.
func (w *world) crash(n *node) {
	n.link.set(func(l *link) { l.dead = true })
	n.store.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	w.start(n)
}

// failOver puts the server back to earlier data. What was charged and granted since then, and reported
// of credit, is lost. What is in
// hand is lost too, if the server has forgotten that its deadline was extended. So much may be admitted again,
// until the grants end.
func (w *world) failOver(i int) {
	held := w.held()
	w.mu.Lock()
	p := w.past[i]
	for j, l := range w.ledgers {
		lost := l.given + l.credits + held[j]
		if p.sums != nil { // otherwise all data is lost
			lost -= p.sums[j].given + p.sums[j].credits
		}
		l.bound.forget(lost, held[j], w.serverTime(), w.grantsEnd())
	}
	w.mu.Unlock()
	w.server.Restore(p.data)
}

// held returns how many units of each key the server has in escrow.
func (w *world) held() (all []int64) {
	for _, l := range w.ledgers {
		all = append(all, w.server.Escrow(w.limit, l.key).Units())
	}
	return all
}

// grantsEnd returns the server's time until which processes may spend what they have in hand. The world is
// locked.
func (w *world) grantsEnd() int64 {
	life := w.life()
	w.excuse = time.Now().Add(2 * life)
	return w.serverTime() + life.Microseconds()*51/50
}

// jump sets the server's clock. If it goes forward, grants expire in the server before they do in the processes.
// So what is in hand may be admitted beside the limit, until the grants end.
func (w *world) jump(by time.Duration) {
	held := w.held()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead.Add(by.Microseconds())
	for j, l := range w.ledgers {
		if by > 0 {
			l.bound.forget(0, held[j], w.serverTime(), w.grantsEnd())
		} else {
			w.grantsEnd()
			l.bound.turnBack(w.serverTime(), -by.Microseconds())
			l.plain.turnBack(w.serverTime(), -by.Microseconds())
		}
	}
}

// change lets a process use the other limit. Until no process uses the first one, and its grants have
// ended and are forgotten, the bounds hold both.
func (w *world) change(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.mu.Lock()
	if n.limit == w.limit {
		n.limit = w.other
	} else {
		n.limit = w.limit
	}
	n.mu.Unlock()
	w.changed()
}

// changed lets the bounds follow the limits that processes use. The world is locked.
func (w *world) changed() {
	w.changes++
	before, number, used := w.ledgers[0].laws, w.changes, w.used()
	if !slices.ContainsFunc(used, func(l *sluice.Limit) bool { return !slices.Contains(before, l) }) {
		if len(used) < len(before) {
			time.AfterFunc(w.settling(), func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.changes == number {
					w.follow(used)
				}
			})
		}
		return
	}
	w.follow([]*sluice.Limit{w.limit, w.other})
	if len(used) == 1 {
		w.changed()
	}
}

// settling returns how long the use of a limit matters after all processes have left it.
func (w *world) settling() time.Duration {
	later := 2*w.life() + 3*min(max(w.limit.Rate().Period(), w.other.Rate().Period()), time.Hour)
	if w.weather.twice+w.weather.slow > 0 {
		later += 10 * time.Second // claims of the other limit are still on their way
	}
	return later
}

func (w *world) follow(laws []*sluice.Limit) {
	for _, l := range w.ledgers {
		l.follow(laws, w.serverTime())
	}
}

// used returns the limits that processes use.
func (w *world) used() (all []*sluice.Limit) {
	for _, n := range w.nodes {
		n.mu.Lock()
		if !slices.Contains(all, n.limit) {
			all = append(all, n.limit)
		}
		n.mu.Unlock()
	}
	return all
}
