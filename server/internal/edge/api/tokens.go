package api

import (
	"container/heap"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/share"
)

// tokens is the bounded table of open reservations. A reservation stays until it is taken or expires. One
// timer serves all: it fires when the first reservation expires.
type tokens struct {
	expire  func(held)
	expired atomic.Uint64

	mu     sync.Mutex
	room   *share.Room
	byName map[string]*booked
	byTime queue
	timer  *time.Timer
	closed bool
	// running counts the expirations under way.
	running sync.WaitGroup
}

// booked is an open reservation.
type booked struct {
	name  string
	held  held
	index int // in the queue
}

func newTokens(most int, expire func(held)) *tokens {
	return &tokens{room: share.NewRoom(most), expire: expire, byName: map[string]*booked{}}
}

// book reserves room for a caller's token, and reports whether there was room.
func (t *tokens) book(caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !t.room.IsFree(caller) {
		return false
	}
	t.room.Take(caller, 1)
	return true
}

// unbook gives the room back.
func (t *tokens) unbook(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room.Take(caller, -1)
}

// open puts a reservation into booked room, and returns its token: 130 random bits, which nobody guesses.
func (t *tokens) open(h held, ttl time.Duration) string {
	h.ends = time.Now().Add(ttl)
	name := rand.Text()
	t.put(name, h)
	return name
}

// put puts a reservation into booked room, under a name.
func (t *tokens) put(name string, h held) {
	e := &booked{name: name, held: h}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.byName[name] = e
	heap.Push(&t.byTime, e)
	t.schedule()
}

// take removes a token and returns what it held. Its room stays booked until put or unbook.
func (t *tokens) take(name string) (held, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byName[name]
	if !ok || t.closed {
		return held{}, false
	}
	t.remove(e)
	return e.held, true
}

func (t *tokens) remove(e *booked) {
	delete(t.byName, e.name)
	heap.Remove(&t.byTime, e.index)
}

// schedule sets the timer for the token that expires first.
func (t *tokens) schedule() {
	if t.closed || len(t.byTime) == 0 {
		return
	}
	wait := time.Until(t.byTime[0].held.ends)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.sweep)
		return
	}
	t.timer.Reset(wait)
}

// sweep expires the tokens whose time is over.
func (t *tokens) sweep() {
	var over []held
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.running.Add(1)
	defer t.running.Done()
	for now := time.Now(); len(t.byTime) > 0 && !t.byTime[0].held.ends.After(now); {
		e := t.byTime[0]
		t.remove(e)
		t.room.Take(e.held.caller, -1)
		over = append(over, e.held)
	}
	t.mu.Unlock()

	for _, h := range over {
		t.expire(h)
		t.expired.Add(1)
	}

	t.mu.Lock()
	t.schedule()
	t.mu.Unlock()
}

func (t *tokens) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byName)
}

// close forgets all tokens and stops the timer.
func (t *tokens) close() {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	clear(t.byName)
	t.byTime = nil
	t.mu.Unlock()
	t.running.Wait()
}

// queue orders entries by their end, for container/heap.
type queue []*booked

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].held.ends.Before(q[j].held.ends) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds a reservation.
func (q *queue) Push(x any) {
	e := x.(*booked)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop removes the last reservation.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
