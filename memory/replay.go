package memory

import (
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// copyOf returns a copy of the state at a location, with room for this many more words.
func (sp *stripe) copyOf(p *location, room int) algo.Replica {
	c := algo.Replica{Params: p.v.params, Room: room}
	e := sp.lookup(p)
	if e != nil {
		c.Params = sp.store.versions.at(e.version()).params
	}
	switch {
	case c.Params.Inline():
		if e != nil {
			c.State = e.state
		}
	case e == nil || e.state.T == 0:
		least, _ := c.Params.Words()
		c.Words = make([]uint64, least+room)
	default:
		old := sp.words(e)
		c.Words = make([]uint64, len(old)+room)
		c.Params.MoveWords(c.Words, old)
	}
	return c
}

// peekReplica decides on a state, which may be under other numbers, and does not change it.
func peekReplica(c *algo.Replica, v *version, req *algo.Request) sluice.Decision {
	var res algo.Result
	c.Peek(v.params, req, &res)
	return translate.Decision(v.params, &res)
}
