package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/algo"
)

// The escrow of a key is a part of its state: see docs/adr/0034.
var _ driver.Grantor = (*Store)(nil)

// Bounds of the calls that carry claims.
const (
	maxClaims = 32 // of a call, because a script blocks the server
	maxCalls  = 16 // at once
)

// maxSeq is the largest sequence number: scripts compute with it.
const maxSeq = exact - 1

// maxDemand is the largest demand that shares are computed from.
const maxDemand = 1e12

// claims is what one call carries: claims whose keys are in one slot.
type claims struct {
	of     []driver.Claim
	limits []*limit
	keys   []string
	set    uint  // of algorithms
	index  []int // of each claim in the caller's list
}

// Grant handles claims. See driver.Grantor. Claims whose keys share a slot travel in calls of up to
// 32 claims; without a cluster, all keys do. Several calls run at once. A claim is never sent
// again, except by the caller.
func (s *Store) Grant(ctx context.Context, holder uint64, cs []driver.Claim, out []driver.Grant) {
	calls := s.split(cs, out)
	var all sync.WaitGroup
	var next atomic.Int64
	work := func() {
		for n := next.Add(1); int(n) <= len(calls); n = next.Add(1) {
			s.claim(ctx, holder, calls[n-1], out)
		}
	}
	for range min(len(calls), maxCalls) - 1 {
		all.Go(work)
	}
	work()
	all.Wait()
}

// split splits claims into calls. It writes the errors of invalid claims to out.
func (s *Store) split(cs []driver.Claim, out []driver.Grant) []*claims {
	var calls []*claims
	open := map[uint16]*claims{}
	taken := make(map[string]bool, len(cs))
	for i := range cs {
		c := &cs[i]
		out[i] = driver.Grant{Err: checkClaim(c)}
		if out[i].Err != nil {
			continue
		}
		l := s.limits.get(c.Limit)
		key := s.stateKey(l, c.Key)
		if taken[key] {
			out[i].Err = &sluice.RequestError{Limit: c.Limit.Name(), Problem: "has two claims for one key in one call; give one"}
			continue
		}
		taken[key] = true
		slot := uint16(0)
		if s.cluster {
			slot = s.names.slot(c.Key)
		}
		call := open[slot]
		if call == nil || len(call.of) == maxClaims {
			call = new(claims)
			open[slot] = call
			calls = append(calls, call)
		}
		call.of, call.limits, call.keys = append(call.of, *c), append(call.limits, l), append(call.keys, key)
		call.index = append(call.index, i)
		call.set |= 1 << l.params.Kind
	}
	return calls
}

// checkClaim reports why a claim cannot be handled.
func checkClaim(c *driver.Claim) error {
	if c.Limit == nil {
		return &sluice.RequestError{Problem: "has no limit"}
	}
	fail := func(problem string) error {
		return &sluice.RequestError{Limit: c.Limit.Name(), Problem: problem}
	}
	switch {
	case c.Limit.Hybrid() == nil:
		return fail("claims units of a limit without hybrid terms; give it some with WithHybrid")
	case c.Seq < 1 || c.Seq > maxSeq || c.Birth > c.Seq:
		return fail(fmt.Sprintf("has the sequence number %d and the birth %d; give numbers from 1 to %d, the birth first", c.Seq, c.Birth, int64(maxSeq)))
	case c.Spent < 0 || c.Returned < 0 || c.Take < 0 || c.Floor < 0 || c.Want < 0 || c.Least < 0 || c.Demand < 0 || c.Till < 0:
		return fail("has a negative number; give 0 or more")
	}
	return nil
}

// grantScripts handle claims.
var grantScripts setScripts

// grantFiles returns the files of the script that handles claims of some algorithms.
func grantFiles(set uint) []string {
	files := append([]string{"now"}, kindFiles(set)...)
	if set&fragmentUsers["product"] == 0 {
		files = append(files, "product")
	}
	return append(files, "grant")
}

// claim handles the claims of one call.
func (s *Store) claim(ctx context.Context, holder uint64, call *claims, out []driver.Grant) {
	now := int64(0)
	for _, l := range call.limits {
		if l.calendar() {
			now = s.clock()
			break
		}
	}
	sc := grantScripts.get(call.set, grantFiles)
	who := string(binary.BigEndian.AppendUint64(nil, holder))
	reply, err := s.run(ctx, sc, call.keys, []string{who, call.text(now)})
	if at, ok := outside(err); ok {
		reply, err = s.run(ctx, sc, call.keys, []string{who, call.text(at)})
	}
	if err == nil {
		err = call.read(reply, out)
	}
	if err != nil {
		for _, i := range call.index {
			out[i] = driver.Grant{Err: err}
		}
	}
}

// text returns the claims as the script reads them, with the boundaries of calendars around a
// time.
func (c *claims) text(around int64) string {
	text := appendList(make([]byte, 0, 96*len(c.of)), len(c.of))
	for i := range c.of {
		of, l := &c.of[i], c.limits[i]
		h := of.Limit.Hybrid()
		bounds, q := l.bounds(around), claimed(of, 0)
		text = append(appendList(appendList(text, 14), l.count), l.blob...)
		text = appendRequest(appendList(text, 4+len(bounds)), &q, bounds)
		for _, n := range [...]int64{
			of.Take, int64(of.Seq), int64(of.Birth), of.Till, of.Spent, of.Returned, of.Want, of.Least,
			min(of.Demand, maxDemand), int64(h.Life / time.Microsecond), of.Limit.Escrow(), l.overdraft,
		} {
			text = appendInt(text, min(n, tooMany))
		}
	}
	return string(text)
}

// claimed returns the request of a claim, or a peek for the least useful grant.
func claimed(c *driver.Claim, now int64) algo.Request {
	q := algo.Request{Now: now, Cost: c.Take, Floor: c.Floor}
	if c.Take == 0 {
		q.Cost = max(c.Least, 1)
	}
	return q
}

// How a claim was handled, as in grant.lua.
const (
	claimNew = iota
	claimRepeated
	claimStale
)

// read reads the reply.
func (c *claims) read(reply string, out []driver.Grant) error {
	in := reader{rest: reply}
	now := in.count()
	if n := in.list(); n != len(c.of) {
		in.fail()
	}
	for n, i := range c.index {
		if in.err != nil {
			break
		}
		if !in.isList() {
			out[i] = driver.Grant{Err: failure(&ServerError{Text: in.text()})}
			continue
		}
		in.list()
		g := &out[i]
		*g = driver.Grant{Now: now}
		code, passed, view, at := in.count(), in.count() == 1, in.text(), in.count()
		g.Stale = code == claimStale
		g.Units, g.Held, g.Birth = in.count(), in.count(), uint64(in.count())
		g.Till, g.Free, g.Escrow, g.Holders = in.count(), in.int(), in.count(), int(min(in.count(), math.MaxInt))
		g.Demands, g.Others = in.count(), in.count() == 1
		if in.err != nil {
			break
		}
		if err := c.decide(n, g, code, passed, view, at); err != nil {
			*g = driver.Grant{Err: unknown(err)}
		}
	}
	if in.err != nil {
		return unknown(in.err)
	}
	return nil
}

// decide computes the decision about the request of a claim. at is when the claim was first
// handled.
func (c *claims) decide(n int, g *driver.Grant, code int64, passed bool, view string, at int64) error {
	of, l := &c.of[n], c.limits[n]
	q := claimed(of, g.Now)
	charged := of.Take > 0 && code == claimNew
	if passed && !charged {
		q.Cost = 0
	}
	d, err := l.decision(view, &q, !charged)
	if err != nil {
		return err
	}
	switch {
	case charged && d.Allowed != passed:
		return errDisagree
	case charged || of.Take == 0 || code == claimStale:
	case passed:
		d.Allowed, d.Reason, d.RetryAfter, d.Receipt = true, sluice.ReasonNone, 0, sluice.Receipt{At: at}
	case d.Allowed: // there were fewer units when the claim was handled first
		d.Allowed, d.Reason, d.RetryAfter = false, sluice.ReasonLimited, time.Microsecond
	}
	g.Decision = d
	return nil
}
