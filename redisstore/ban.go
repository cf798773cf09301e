package redisstore

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// withBan returns what a request is told whose ban was in a state when its limit
// answered d.
func withBan(terms *algo.Ban, state algo.State, d sluice.Decision, now int64) sluice.Decision {
	if terms.Banned(state, now) > 0 {
		return translate.Banned(terms.Attempted(state, now).T-now, &d)
	}
	translate.Denied(terms, state, &d, now)
	return d
}

// appendTerms appends the terms of a ban as batch.lua reads them.
func appendTerms(b []byte, t *algo.Ban) []byte {
	b = appendList(b, 5+len(t.Escalate))
	prolong := int64(0)
	if t.Prolong {
		prolong = 1
	}
	for _, n := range [...]int64{t.After, t.Within, t.Forget, prolong, t.For} {
		b = appendInt(b, n)
	}
	for _, d := range t.Escalate {
		b = appendInt(b, int64(d/time.Microsecond))
	}
	return b
}

// ban reads the state of a ban.
func (r *reader) ban() algo.State {
	till := r.count()
	c := algo.BanCount{Count: r.count(), Level: r.count(), Forget: r.count()}
	if c.Count > algo.MaxBanDenials || c.Level > algo.BanByHand || c.Forget > algo.MaxBanForget {
		r.fail()
		return algo.State{}
	}
	return algo.State{T: till, V: c.Pack()}
}
