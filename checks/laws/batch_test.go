package laws

import (
	"context"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/oracle"
)

// An item is one request of a batch.
type item struct {
	*account
	request sluice.Request
	oracle  oracle.Request
	id      int
}

// debits reports whether the item is charged before the others, even if the batch is denied.
func (it *item) debits() bool {
	return it.oracle.Debit && it.request.Cost > 0 && !it.request.Shadow
}

// batch sends several requests at once.
func (p *player) batch() {
	var items []item
	for range rapid.IntRange(0, 4).Draw(p.T, "items") {
		at := rapid.SampledFrom(p.accounts).Draw(p.T, "account")
		if at.hammer && holds(items, at) {
			continue
		}
		p.ids++
		it := item{account: at, id: p.ids}
		it.request, it.oracle = p.request(at)
		switch rapid.IntRange(0, 9).Draw(p.T, "mode") {
		case 0:
			it.request.Peek = true
		case 1:
			it.request.Shadow = true
		}
		it.oracle.Debit = it.oracle.Debit && !it.request.Peek
		items = append(items, it)
	}
	requests, got := make([]sluice.Request, len(items)), make([]sluice.Decision, len(items))
	for i := range items {
		requests[i] = items[i].request
	}
	if err := p.store.DecideAll(context.Background(), requests, got); err != nil {
		p.Fatalf("the batch %+v failed: %v", requests, err)
	}
	all := true
	for i, it := range items {
		all = all && (it.request.Shadow || got[i].Allowed)
	}
	for _, at := range p.accounts {
		if holds(items, at) {
			p.narrow(at, "batch", got, func(c candidate) (any, candidate, bool) {
				want, next := simulate(c, at, items, got, all)
				ok := true
				for i, it := range items {
					ok = ok && (it.account != at || same(got[i], want[i]))
				}
				return want, next, ok
			})
		}
	}
	for i, it := range items {
		if got[i].Allowed && (all || it.request.Shadow || it.debits()) && !it.request.Peek {
			p.taken = append(p.taken, taken{it.account, it.id, it.request.Charge(&got[i]), p.acts(&it.request, &got[i]), p.now >= p.high})
		}
	}
}

func holds(items []item, at *account) bool {
	for _, it := range items {
		if it.account == at {
			return true
		}
	}
	return false
}

// simulate returns the decisions about an account in a batch, and its state after the batch. all says
// whether all items of the batch are allowed.
func simulate(c candidate, at *account, items []item, got []sluice.Decision, all bool) ([]sluice.Decision, candidate) {
	want := make([]sluice.Decision, len(items))
	for i, it := range items {
		if it.account == at && it.debits() {
			d, ch, next := decide(c, it.oracle, got[i])
			want[i] = d
			c = c.after(it.id, ch, next)
		}
	}
	before, now := c.State, c.State // before: as if the items before had been charged
	for i, it := range items {
		if it.account != at || it.request.Shadow || it.debits() {
			continue
		}
		want[i] = peek(before, it.oracle, got[i])
		taken, ch, next := decide(before, it.oracle, got[i])
		switch {
		case it.request.Peek:
		case all:
			want[i] = taken
			before = next
			c = c.after(it.id, ch, next)
		case at.hammer && !want[i].Allowed:
			c = candidate{next, c.charges}
		default:
			before = next
		}
		if !all && want[i].Allowed { // nothing was charged
			want[i] = peek(now, it.oracle, got[i])
		}
	}
	for i, it := range items {
		if it.account == at && it.request.Shadow {
			d, ch, next := decide(c, it.oracle, got[i])
			want[i] = d
			c = c.after(it.id, ch, next)
		}
	}
	return want, c
}
