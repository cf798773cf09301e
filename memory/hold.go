package memory

import (
	"container/heap"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// held is a charge that is given back unless it is settled in time. Saved states have no holds: the processes that could
// settle them have ended, and their charges stay.
type held struct {
	location
	id     uint64
	charge algo.Charge
	ends   int64
	index  int // in the queue
}

// heldBytes is the memory of a hold, in the queue and in the map, rounded up.
const heldBytes = 192

// holds are the holds of a stripe, by their identities and by their ends.
type holds struct {
	byID  map[uint64]*held
	queue holdQueue
}

// hold remembers the charge of an allowed request with a Hold. Without room, and for a shared state, the cost stays
// charged.
func (sp *stripe) hold(p *location, r *sluice.Request, d *sluice.Decision, now int64) {
	if r.Hold == 0 || !d.Allowed || d.Overflow || r.Cost == 0 || r.Peek || !sp.store.grow(heldBytes) {
		return
	}
	if sp.holds.byID == nil {
		sp.holds.byID = map[uint64]*held{}
	}
	h := &held{
		location: *p, id: translate.NewHold(), ends: now + int64(r.Hold/1000),
		charge: algo.Charge{Cost: r.Cost, Floor: r.Floor, At: d.Receipt.At},
	}
	d.Receipt.Over = h.id
	sp.holds.byID[h.id] = h
	heap.Push(&sp.holds.queue, h)
}

// giveBackDue gives back what the first due holds took, up to a number of them.
func (sp *stripe) giveBackDue(now int64, most int) {
	for q := &sp.holds.queue; most > 0 && len(*q) > 0 && (*q)[0].ends <= now; most-- {
		h := (*q)[0]
		sp.dropHold(h)
		sp.giveBack(h, now)
	}
}

// endHold ends a hold for a settlement, and reports whether its cost is still charged. What is due is given back.
func (sp *stripe) endHold(id uint64, now int64) bool {
	h := sp.holds.byID[id]
	if h == nil {
		return false
	}
	sp.dropHold(h)
	if h.ends > now {
		return true
	}
	sp.giveBack(h, now)
	return false
}

// giveBack gives back the charge of a hold, if the state still counts it.
func (sp *stripe) giveBack(h *held, now int64) {
	e := sp.lookup(&h.location)
	if e == nil || sp.fresh(e, now) {
		return
	}
	v := sp.store.versions.at(e.version())
	if v.params.Inline() {
		e.state = v.params.SettleState(e.state, now, h.charge, 0)
	} else if e.state.T != 0 {
		v.params.SettleWords(sp.words(e), now, h.charge, 0)
	}
}

// dropHold forgets a hold. Maps and queues keep their memory, so empty ones are dropped too.
func (sp *stripe) dropHold(h *held) {
	heap.Remove(&sp.holds.queue, h.index)
	delete(sp.holds.byID, h.id)
	sp.store.bytes.Add(-heldBytes)
	if len(sp.holds.queue) == 0 {
		sp.holds = holds{}
	}
}

// dropHolds forgets the holds of a key, which was reset.
func (sp *stripe) dropHolds(p *location) {
	for _, h := range sp.holds.byID {
		if h.key == p.key && sameHash(h.tag, p.tag) {
			sp.dropHold(h)
		}
	}
}

// holdQueue orders holds by their ends, for container/heap.
type holdQueue []*held

func (q holdQueue) Len() int           { return len(q) }
func (q holdQueue) Less(i, j int) bool { return q[i].ends < q[j].ends }
func (q holdQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds a hold.
func (q *holdQueue) Push(x any) {
	h := x.(*held)
	h.index = len(*q)
	*q = append(*q, h)
}

// Pop removes the last hold.
func (q *holdQueue) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return h
}
