package granttest

import (
	"fmt"

	"github.com/sluicehq/sluice/internal/oracle"
)

// mostClaims is how many claims a process sends at most.
const mostClaims = 4

// process is an abstract process. It holds at most one grant, and waits for the answer to its last claim
// before it sends another one. All its fields are values, so that a world can be compared.
type process struct {
	id, seq        int8
	claims         [mostClaims]int16 // by Seq-1: indexes of interned claims
	out            bool              // the last claim is not answered
	unspent, spent int8              // spent: and not known to be reported
	birth          int8
	till           int8 // the server's time
	deadline       int8 // its own
	pending        int16
}

// habit is a defect of a process. Tests inject it to prove that they notice it.
type habit uint8

const (
	good            habit = iota
	deadlineOfReply       // the deadline runs from the answer
	numbersRetries        // a claim that is sent again gets a new sequence number
	returnsEarly          // a return is sent before it is deducted
)

// elapse is what a tick does to a process.
func (*explorer) elapse(p *process, now int8) {
	if now >= p.deadline {
		p.unspent = 0
	}
}

// ownActions adds what a process may do by itself.
func (x *explorer) ownActions(all []action, w world, i int8) []action {
	p := w.processes[i]
	if p.unspent > 0 && w.now < p.deadline {
		all = append(all, action{what: spend, process: i})
	}
	if !p.out && p.seq < x.claims {
		for _, take := range []bool{false, true}[:1+x.takes] {
			all = append(all, action{what: send, process: i, take: take, want: true})
			if p.unspent+p.spent > 0 && p.birth > 0 {
				all = append(all, action{what: send, process: i, take: take, give: true})
			}
		}
	}
	return all
}

// networkActions adds what may happen to a process and its claims.
func (x *explorer) networkActions(all []action, w world, i int8) []action {
	p := w.processes[i]
	if p.out && x.habit == numbersRetries && p.seq < x.claims {
		all = append(all, action{what: renumber, process: i})
	}
	if p.pending != 0 {
		all = append(all, action{what: receive, process: i})
	}
	for c := range p.seq {
		if c == p.seq-1 && p.out && p.pending == 0 {
			all = append(all, action{what: deliver, process: i, claim: c})
		}
		all = append(all, action{what: deliver, process: i, claim: c, lost: true})
	}
	if w.restarts > 0 && p.seq > 0 {
		all = append(all, action{what: restart, process: i})
	}
	return all
}

// send sends a new claim.
func (x *explorer) send(p *process, a action) {
	c := oracle.Claim{
		Seq: uint64(p.seq + 1), Birth: uint64(p.birth), Till: int64(p.till), Spent: int64(p.spent),
		Least: 1, Demand: 1000,
	}
	if a.take {
		c.Take = 1
	}
	if a.want {
		c.Want = x.want
	}
	if p.birth == 0 {
		p.unspent = 0 // no credit once a claim was sent
	}
	if a.give {
		c.Returned = int64(p.unspent)
		if x.habit != returnsEarly {
			p.unspent = 0
		}
	}
	x.put(p, c)
}

func (x *explorer) put(p *process, c oracle.Claim) {
	p.claims[p.seq] = int16(x.claimed.put(c, fmt.Sprint(c)))
	p.seq++
	p.out = true
}

// renumber sends the last claim again, with a new number.
func (x *explorer) renumber(p *process) {
	c := x.claimed.values[p.claims[p.seq-1]]
	c.Seq = uint64(p.seq + 1)
	x.put(p, c)
}

// receive is what a process does with an answer to the last claim. deadline is when the grant ends.
func (x *explorer) receive(p *process, g oracle.Grant, deadline int8) {
	c := x.claimed.values[p.claims[p.seq-1]]
	p.out = false
	if g.Stale {
		return
	}
	if x.habit == returnsEarly {
		p.unspent = max(0, p.unspent-int8(c.Returned))
	}
	if uint64(p.birth) == c.Birth && c.Birth != g.Birth {
		// The grant is gone: it was booked as it expired.
		p.unspent, p.spent = 0, 0
	} else {
		p.spent -= int8(c.Spent)
	}
	p.birth, p.till = int8(g.Birth), int8(g.Till)
	p.unspent += int8(g.Units)
	p.deadline = deadline
}
