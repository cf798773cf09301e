package algo

// Replica is a state of any kind, with the numbers under which it was written. A batch charges its earlier requests to a
// replica, to decide its later ones.
type Replica struct {
	Params *Params
	State  State
	Words  []uint64 // the state of a kind that is not inline
	Room   int      // words beyond the state, which charges may use
}

// Keeps reports whether the request leaves the state as it is: the request is denied, under other numbers.
func (c *Replica) Keeps(p *Params, req *Request) bool {
	if *p == *c.Params || c.Moves(p, req.Now) {
		return false
	}
	other := *c
	other.Convert(p, req.Now)
	var res Result
	p.Evaluate(other.State, other.Words, req, &res)
	return !res.Allowed
}

// Moves reports whether a denial under other numbers changes the state.
func (c *Replica) Moves(p *Params, now int64) bool {
	if p.Inline() {
		return p.MovesState(c.Params, c.State, now)
	}
	return p.MovesWords(c.Params, c.Words, now)
}

// Convert converts the state to other numbers of its limit.
func (c *Replica) Convert(p *Params, now int64) {
	from := c.Params
	if p == from {
		return
	}
	c.Params = p
	if p.Inline() {
		c.State = p.ConvertState(from, c.State, now)
		return
	}
	old := c.Words
	least, _ := p.Words()
	c.Words = make([]uint64, max(least+c.Room, len(old)))
	p.ConvertWords(from, c.Words, old, now)
}

// Charge decides a request and changes the state.
func (c *Replica) Charge(req *Request, res *Result) {
	if c.Params.Inline() {
		c.State = c.Params.DecideState(c.State, req, res)
		return
	}
	*res = c.Params.DecideWords(c.Words, *req, true)
}

// Peek decides a request under numbers that may be others, and does not change the state.
func (c *Replica) Peek(p *Params, req *Request, res *Result) {
	if *p == *c.Params {
		p.Peek(c.State, c.Words, req, res)
		return
	}
	other := *c
	other.Convert(p, req.Now)
	p.Peek(other.State, other.Words, req, res)
	switch {
	case c.Moves(p, req.Now):
	case p.Inline():
		p.AwaitState(c.Params, c.State, req, res)
	default:
		p.AwaitWords(c.Params, c.Words, req, res)
	}
}
