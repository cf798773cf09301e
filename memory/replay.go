package memory

import (
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// replica is a copy of a state. A batch charges its earlier requests to the copy, to decide its
// later requests.
type replica struct {
	params *algo.Params
	state  algo.State
	words  []uint64 // the state of a kind that is not inline
	room   int      // words beyond the state, which charges to the copy may use
}

// copyOf returns a copy of the state at a location, with room for this many more words.
func (sh *shard) copyOf(p *location, room int) replica {
	c := replica{params: p.v.params, room: room}
	e := sh.lookup(p)
	if e != nil {
		c.params = sh.store.versions.at(e.version()).params
	}
	switch {
	case c.params.Inline():
		if e != nil {
			c.state = e.state
		}
	case e == nil || e.state.T == 0:
		least, _ := c.params.Words()
		c.words = make([]uint64, least+room)
	default:
		old := sh.words(e)
		c.words = make([]uint64, len(old)+room)
		c.params.MoveWords(c.words, old)
	}
	return c
}

// keeps reports whether the request leaves the copy as it is: the request is denied, under other
// numbers.
func (c *replica) keeps(p *algo.Params, req *algo.Request) bool {
	if *p == *c.params || c.moves(p, req.Now) {
		return false
	}
	other := *c
	other.convert(p, req.Now)
	var res algo.Result
	p.Evaluate(other.state, other.words, req, &res)
	return !res.Allowed
}

// moves reports whether a denial under other numbers changes the copy.
func (c *replica) moves(p *algo.Params, now int64) bool {
	if p.Inline() {
		return p.MovesState(c.params, c.state, now)
	}
	return p.MovesWords(c.params, c.words, now)
}

// convert converts the copy to other numbers of its limit.
func (c *replica) convert(p *algo.Params, now int64) {
	from := c.params
	if p == from {
		return
	}
	c.params = p
	if p.Inline() {
		c.state = p.ConvertState(from, c.state, now)
		return
	}
	old := c.words
	least, _ := p.Words()
	c.words = make([]uint64, max(least+c.room, len(old)))
	p.ConvertWords(from, c.words, old, now)
}

// charge decides on the copy and changes it.
func (c *replica) charge(req *algo.Request) {
	if c.params.Inline() {
		c.state = c.params.DecideState(c.state, req, new(algo.Result))
		return
	}
	c.params.DecideWords(c.words, *req, true)
}

// peek decides on the copy, which may be under other numbers, and does not change it.
func (c *replica) peek(v *version, req *algo.Request) sluice.Decision {
	if *v.params == *c.params {
		return peekState(v, c.state, c.words, req)
	}
	other := *c
	other.convert(v.params, req.Now)
	var res algo.Result
	v.params.Peek(other.state, other.words, req, &res)
	switch {
	case c.moves(v.params, req.Now):
	case v.params.Inline():
		v.params.AwaitState(c.params, c.state, req, &res)
	default:
		v.params.AwaitWords(c.params, c.words, req, &res)
	}
	return translate.Decision(v.params, &res)
}
