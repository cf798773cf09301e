package granttest

import (
	"fmt"
	"slices"
	"strings"
)

// trace returns how a state was reached.
func (x *explorer) trace(i int32) string {
	var lines []string
	for v := x.visits[i]; v.before >= 0; v = x.visits[v.before] {
		if v.action.what == pass {
			continue
		}
		lines = append(lines, x.describe(x.visits[v.before].world, v.action))
	}
	slices.Reverse(lines)
	return fmt.Sprintf("%s, a server that %v, habit %d:\n%s\n", x.name, x.fault, x.habit, strings.Join(lines, "\n"))
}

func (x *explorer) describe(w world, a action) string {
	p := w.processes[a.process]
	text := fmt.Sprintf("%2d: ", w.now)
	switch a.what {
	case tick:
		return text + "a tick"
	case pass:
		return text + "nothing more"
	case exactly:
		return text + fmt.Sprintf("an exact decision, with %+v", x.redis.values[w.redis].State)
	case reset:
		return text + "reset"
	}
	text += fmt.Sprintf("process %d ", p.id)
	switch a.what {
	case spend:
		return text + fmt.Sprintf("spends 1 of %d", p.unspent)
	case send:
		x.send(&p, a)
		return text + fmt.Sprintf("sends %+v", x.claimed.values[p.claims[p.seq-1]])
	case renumber:
		return text + "sends it again with a new number"
	case receive:
		return text + "receives the answer"
	case restart:
		return text + "restarts"
	}
	g := x.grants.values[x.handled[handling{w.redis, int32(p.claims[a.claim]), w.now, p.id}].grant]
	text += fmt.Sprintf("claim %d is handled: %d units, held %d, birth %d, till %d, free %d", a.claim+1, g.Units, g.Held, g.Birth, g.Till, g.Free)
	if a.lost {
		text += "; the answer is lost"
	}
	return text
}
