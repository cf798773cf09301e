package laws

import (
	"context"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
)

// item is one request of a batch.
type item struct {
	*place
	request sluice.Request
	ask     ask
	id      int
}

// batch asks for several things at once.
func (p *player) batch() {
	var items []item
	for range rapid.IntRange(0, 4).Draw(p.T, "items") {
		at := rapid.SampledFrom(p.places).Draw(p.T, "place")
		if at.hammer && holds(items, at) {
			continue
		}
		p.ids++
		it := item{place: at, id: p.ids}
		it.request, it.ask = p.request(at)
		switch rapid.IntRange(0, 9).Draw(p.T, "mode") {
		case 0:
			it.request.Peek = true
		case 1:
			it.request.Shadow = true
		}
		items = append(items, it)
	}
	requests, got := make([]sluice.Request, len(items)), make([]sluice.Decision, len(items))
	for i := range items {
		requests[i] = items[i].request
	}
	if err := p.store.DecideAll(context.Background(), requests, got); err != nil {
		p.Fatalf("%+v: %v", requests, err)
	}
	all := true
	for i, it := range items {
		all = all && (it.request.Shadow || got[i].Allowed)
	}
	for _, at := range p.places {
		if holds(items, at) {
			p.narrow(at, "batch", got, func(c candidate) (any, candidate, bool) {
				want, next := simulate(c, at, items, all)
				ok := true
				for i, it := range items {
					ok = ok && (it.place != at || same(got[i], want[i]))
				}
				return want, next, ok
			})
		}
	}
	for i, it := range items {
		if got[i].Allowed && (all || it.request.Shadow) && !it.request.Peek {
			p.taken = append(p.taken, taken{it.place, it.id, it.request.Charge(&got[i])})
		}
	}
}

func holds(items []item, at *place) bool {
	for _, it := range items {
		if it.place == at {
			return true
		}
	}
	return false
}

// simulate returns the answers to the items about a place, and its state after
// them; all says whether all items of the batch are allowed.
func simulate(c candidate, at *place, items []item, all bool) ([]sluice.Decision, candidate) {
	want := make([]sluice.Decision, len(items))
	before := c.oracle // as if those before had been charged
	for i, it := range items {
		if it.place != at || it.request.Shadow {
			continue
		}
		want[i] = look(before, it.ask)
		_, ch, next := before.decide(it.ask)
		switch {
		case it.request.Peek:
		case all:
			want[i], _, _ = before.decide(it.ask)
			before = next
			c = c.after(it.id, ch, next)
		case at.hammer && !want[i].Allowed:
			c = candidate{next, c.charges}
		default:
			before = next
		}
	}
	for i, it := range items {
		if it.place == at && it.request.Shadow {
			d, ch, next := c.decide(it.ask)
			want[i] = d
			c = c.after(it.id, ch, next)
		}
	}
	return want, c
}
