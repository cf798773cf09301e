package granttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/oracle"
)

// A search visits all states that a few abstract processes, one server and a network can reach. The server
// is the oracle, which checks/decisions compares with the scripts. A process is an abstraction of
// hybrid.Store: it sends what hybrid.Store may send, at any time. The network loses, delays, repeats and
// reorders claims, and loses answers.
//
// Three kinds of steps are left out, since they lead to nothing else. What a process spends and sends changes
// nothing for others before it is handled. So each process takes these steps once after each tick, and when
// it receives an answer. An answer that comes late is the same as an answer that comes at once to a process
// that waits. So only searches for defects have late answers.
// A deadline runs from the time at which a claim was sent, and a claim may be sent again at any time. So the
// latest deadline is the one of a claim that was sent just before it is handled: the server's Till.
//
// One tick of the search is a microsecond of the oracle.
type search struct {
	name      string
	fresh     oracle.State // of the limit
	bound     oracle.State // of the limit with its overdraft and all credit: must admit all spends
	terms     oracle.Terms
	processes int
	ticks     int8
	claims    int8 // of each process
	want      int64
	exact     int8 // exact decisions of others
	takes     int  // 1: claims may have a request
	restarts  int8
	resets    int8
	credit    int8
	fault     Fault
	habit     habit
	late      bool // answers may come late
	most      int  // states
}

// world is one state of a search.
type world struct {
	now                     int8
	turn                    int8  // the process whose steps of its own come next; nobody's if it is processes
	alone                   bool  // no other process has a turn after it
	redis, bound            int32 // indexes of interned states
	exact, restarts, resets int8  // that are left
	processes               [3]process
}

// visit is a visited state and how it was reached.
type visit struct {
	world  world
	before int32
	action action
}

// action is one step.
type action struct {
	what    what
	process int8
	claim   int8 // which of its claims
	lost    bool // the answer
	take    bool
	give    bool // returns all
	want    bool
}

type what uint8

const (
	tick what = iota
	pass      // the process of the turn waits
	spend
	exactly
	send
	renumber
	deliver
	receive
	restart
	reset
)

// explorer is a running search.
type explorer struct {
	search
	seen    map[world]struct{}
	visits  []visit
	redis   interned[oracle.Escrow]
	states  interned[oracle.State]
	claimed interned[oracle.Claim]
	grants  interned[oracle.Grant]
	handled map[handling]handled
	spent   map[spending]int32
	decided map[spending]verdict
	aged    map[spending]int32 // the server's states
	waited  map[spending]int32 // the bound's states
}

type handling struct {
	redis, claim int32
	now, id      int8
}

type handled struct {
	redis, grant int32
	charged      int64 // by Take, the first time
}

type spending struct {
	state int32
	now   int8
}

type verdict struct {
	after   int32
	allowed bool
}

// interned numbers the values of a type by their text.
type interned[T any] struct {
	values []T
	index  map[string]int32
}

func (n *interned[T]) put(v T, text string) int32 {
	i, found := n.index[text]
	if !found {
		if n.index == nil {
			n.index = map[string]int32{}
		}
		i = int32(len(n.values))
		n.values = append(n.values, v)
		n.index[text] = i
	}
	return i
}

func textOf(e oracle.Escrow) string {
	var b strings.Builder
	fmt.Fprint(&b, e.State)
	for _, h := range e.Holders {
		fmt.Fprint(&b, " ", h.ID, h.Seq, h.Birth, h.Units, h.Till, h.Demand, h.Answer.Units, h.Answer.Result.Allowed)
	}
	return b.String()
}

// run visits all states. It returns what is wrong with the first bad one, with a trace to it.
func (s search) run() (states int, problem string) {
	x := &explorer{
		search: s, seen: map[world]struct{}{}, handled: map[handling]handled{},
		spent: map[spending]int32{}, decided: map[spending]verdict{}, aged: map[spending]int32{}, waited: map[spending]int32{},
	}
	x.claimed.put(oracle.Claim{}, "")
	x.grants.put(oracle.Grant{}, "")
	start := world{exact: s.exact, restarts: s.restarts, resets: s.resets}
	e := oracle.NewEscrow(s.fresh)
	start.redis, start.bound = x.redis.put(e, textOf(e)), x.states.put(s.bound, fmt.Sprint(s.bound))
	for i := range s.processes {
		start.processes[i] = process{id: int8(i + 1), unspent: s.credit, deadline: s.ticks + 1}
	}
	x.seen[start] = struct{}{}
	x.visits = append(x.visits, visit{start, -1, action{}})
	for i := 0; i < len(x.visits); {
		if problem := x.expand(int32(i)); problem != "" {
			return len(x.visits), x.trace(int32(i)) + problem
		}
		if s.most > 0 && len(x.visits) > s.most {
			return len(x.visits), "more states than expected"
		}
		i++
	}
	return len(x.visits), ""
}

// expand visits what can follow. Its problem names the step that has it.
func (x *explorer) expand(i int32) string {
	w := x.visits[i].world
	for _, a := range x.actions(w) {
		next, problem := x.step(w, a)
		if problem == "" {
			problem = x.check(next)
		}
		if problem != "" {
			return x.describe(w, a) + "\n" + problem
		}
		if _, found := x.seen[next]; !found {
			x.seen[next] = struct{}{}
			x.visits = append(x.visits, visit{next, i, a})
		}
	}
	return ""
}

// actions returns the steps that are possible.
func (x *explorer) actions(w world) []action {
	var all []action
	if w.turn < int8(x.processes) {
		return x.ownActions([]action{{what: pass}}, w, w.turn)
	}
	if w.now < x.ticks {
		all = append(all, action{what: tick})
	}
	if w.exact > 0 {
		all = append(all, action{what: exactly})
	}
	if w.resets > 0 {
		all = append(all, action{what: reset})
	}
	for i := range int8(x.processes) {
		all = x.networkActions(all, w, i)
	}
	return all
}

// step returns the state after a step.
func (x *explorer) step(w world, a action) (world, string) {
	p := &w.processes[a.process]
	switch a.what {
	case tick:
		w.now++
		w.redis, w.bound = x.later(w)
		w.turn, w.alone = 0, false
		for i := range w.processes {
			x.elapse(&w.processes[i], w.now)
		}
	case pass:
		if w.turn++; w.alone {
			w.turn, w.alone = int8(x.processes), false
		}
	case exactly:
		w.exact--
		key := spending{w.redis, w.now}
		v, found := x.decided[key]
		if !found {
			d, _, after := x.fault.Decide(x.redis.values[w.redis], oracle.Request{Now: int64(w.now), Cost: 1}, x.terms, oracle.Result{})
			v = verdict{x.redis.put(after, textOf(after)), d.Allowed}
			x.decided[key] = v
		}
		w.redis = v.after
		if v.allowed {
			return x.spend(w, 1)
		}
	case reset:
		w.resets--
		e := x.redis.values[w.redis].Reset(int64(w.now), x.fresh)
		w.redis = x.redis.put(e, textOf(e))
		w.bound = x.states.put(x.search.bound, fmt.Sprint(x.search.bound))
	case spend:
		p.unspent--
		p.spent++
		return x.spend(w, 1)
	case send:
		x.send(p, a)
	case renumber:
		x.renumber(p)
	case deliver:
		return x.deliver(w, a)
	case receive:
		g := x.grants.values[p.pending]
		deadline := int8(g.Till)
		if x.habit == deadlineOfReply {
			deadline = w.now + int8(g.Till-g.Now)
		}
		x.receive(p, g, deadline)
		p.pending = 0
		w.turn, w.alone = a.process, true
	case restart:
		w.restarts--
		*p = process{id: p.id, seq: p.seq, claims: p.claims}
		w.turn, w.alone = a.process, true
	}
	return w, ""
}

// later returns the indexes of what the server and the bound have at the new time, so that states which only
// differ in how they came about are one.
func (x *explorer) later(w world) (redis, bound int32) {
	key := spending{w.redis, w.now}
	redis, found := x.aged[key]
	if !found {
		e := x.redis.values[w.redis]
		if x.fault == Correct {
			e = e.Settle(int64(w.now), oracle.Charge{}, 0)
		}
		redis = x.redis.put(e, textOf(e))
		x.aged[key] = redis
	}
	key.state = w.bound
	bound, found = x.waited[key]
	if !found {
		s := x.states.values[w.bound].Settle(int64(w.now), oracle.Charge{}, 0)
		bound = x.states.put(s, fmt.Sprint(s))
		x.waited[key] = bound
	}
	return redis, bound
}

// spend lets the exact algorithm with the bound decide about units that were admitted.
func (x *explorer) spend(w world, units int64) (world, string) {
	for range units {
		key := spending{w.bound, w.now}
		after, found := x.spent[key]
		if !found {
			after = -1
			r := oracle.Request{Now: int64(w.now), Cost: 1}
			if s := x.states.values[w.bound]; first(s.Allows(r)) {
				next, _ := s.Take(r, true)
				after = x.states.put(next, fmt.Sprint(next))
			}
			x.spent[key] = after
		}
		if after < 0 {
			return w, "the limit with its bound denies what was admitted"
		}
		w.bound = after
	}
	return w, ""
}

func first(ok bool, _ int64, _ oracle.Reason) bool { return ok }

// deliver lets the server handle a claim, and the process receive the answer.
func (x *explorer) deliver(w world, a action) (world, string) {
	p := &w.processes[a.process]
	key := handling{w.redis, int32(p.claims[a.claim]), w.now, p.id}
	h, found := x.handled[key]
	if !found {
		before, c := x.redis.values[w.redis], x.claimed.values[key.claim]
		g, after := x.fault.Claim(before, int64(w.now), uint64(p.id), c, x.terms, oracle.Result{})
		g.Charge = oracle.Charge{}
		h = handled{redis: x.redis.put(after, textOf(after)), grant: x.grants.put(g, fmt.Sprint(g))}
		if c.Take > 0 && g.Result.Allowed && !answered(before.At(int64(w.now)), uint64(p.id), c.Seq) {
			h.charged = c.Take
		}
		x.handled[key] = h
	}
	w.redis = h.redis
	if !a.lost {
		if x.late {
			p.pending = int16(h.grant)
		} else {
			w.turn, w.alone = a.process, true
			x.receive(p, x.grants.values[h.grant], int8(x.grants.values[h.grant].Till))
		}
	}
	return x.spend(w, h.charged)
}

func answered(e oracle.Escrow, id, seq uint64) bool {
	return slices.ContainsFunc(e.Holders, func(h oracle.Holder) bool { return h.ID == id && seq <= h.Seq })
}

// check returns what is wrong with a state: a process may have more units in hand than are in escrow for it.
func (x *explorer) check(w world) string {
	for i := range x.processes {
		p := &w.processes[i]
		if p.birth == 0 || p.unspent == 0 || w.now >= p.deadline {
			continue
		}
		held, seq := int64(0), uint64(0)
		for _, h := range x.redis.values[w.redis].At(int64(w.now)).Holders {
			if h.ID == uint64(p.id) {
				held, seq = h.Units, h.Seq
			}
		}
		open := int64(p.unspent) + int64(p.spent)
		if p.out && seq >= uint64(p.seq) {
			open -= x.claimed.values[p.claims[p.seq-1]].Spent
		}
		if held < open {
			return fmt.Sprintf("process %d has %d units that it has not reported, and %d are in escrow", p.id, open, held)
		}
	}
	return ""
}

// correct runs a search and expects no problem.
func (s search) correct(t *testing.T) {
	t.Helper()
	states, problem := s.run()
	if problem != "" {
		t.Errorf("the search found a state that breaks a promise: %s", problem)
	}
	t.Logf("%s: %d states", s.name, states)
}
