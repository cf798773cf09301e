package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// maxBatch bounds the requests of a batch, because a script blocks the server.
const maxBatch = 1000

// DecideAll decides several requests as one. See sluice.Store. It takes one call, or on a
// cluster one for each slot.
//
// On a cluster with keys in several slots, the slots are decided in parallel. If one slot
// denies, the charges of the other slots are given back. Until then, other requests may be
// denied because of these charges. A slot whose outcome is unknown is not given back.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if len(out) != len(rs) {
		return fmt.Errorf("redisstore: DecideAll has %d requests and room for %d decisions; give as many", len(rs), len(out))
	}
	if len(rs) == 0 {
		return nil
	}
	if len(rs) == 1 && !rs[0].Shadow {
		d, err := s.Decide(ctx, rs[0])
		if err == nil {
			out[0] = d
		}
		return err
	}
	for i := range rs {
		if err := rs[i].Check(); err != nil {
			return err
		}
	}
	if len(rs) > maxBatch {
		return &sluice.RequestError{Limit: rs[0].Limit.Name(), Problem: "is in a batch of more than " + strconv.Itoa(maxBatch) + "; decide fewer at once"}
	}
	if s.cluster {
		return s.decideSlots(ctx, rs, out)
	}
	return s.decideSlot(ctx, rs, out)
}

// batch holds requests whose keys are in one slot.
type batch struct {
	rs       []sluice.Request
	requests []algo.Request
	limits   []*limit
	at       []address
	holds    []uint64 // the identities of the holds; nil if there is none
	keys     []string
	byKey    map[string]int // the indexes of many keys

	now   int64
	all   bool
	views []view
}

// address holds the indexes of a request's keys, from 1. 0 means that there is no ban, or no hold.
type address struct{ state, ban, holds int }

// view is the state that a request was decided upon.
type view struct {
	text string
	ban  algo.State
}

var batchScripts, eachScripts setScripts

// batchFiles returns the files of the script that decides batches of some algorithms.
func batchFiles(set uint) []string {
	files := []string{"now"}
	switch {
	case set == 1<<algo.KindBucket:
		files = append(files, "batch_buckets")
	case set == 1<<algo.KindFixedWindow:
		files = append(files, "batch_windows")
	case set&^quickKinds == 0:
		files = append(files, "batch_quick")
	}
	return append(append(files, kindFiles(set)...), "holds", "batch")
}

// eachFiles returns the files of the script that decides batches of shadows, each on its own.
func eachFiles(set uint) []string {
	files := []string{"now"}
	if set&^quickKinds == 0 {
		files = append(files, "batch_quick")
	}
	return append(append(files, kindFiles(set)...), "holds", "batch")
}

// decideSlot decides requests whose keys are in one slot.
func (s *Store) decideSlot(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	b, err := s.runBatch(ctx, rs)
	if err != nil {
		return err
	}
	return b.decisions(out, b.all)
}

// runBatch decides requests by one call.
func (s *Store) runBatch(ctx context.Context, rs []sluice.Request) (*batch, error) {
	b := &batch{
		rs: rs, requests: make([]algo.Request, len(rs)), limits: make([]*limit, len(rs)),
		at: make([]address, len(rs)), keys: make([]string, 0, len(rs)),
	}
	set, calendars := uint(0), false
	for i := range rs {
		b.limits[i] = s.limits.get(rs[i].Limit)
		b.requests[i] = b.limits[i].request(&rs[i])
		set |= 1 << b.limits[i].params.Kind
		calendars = calendars || b.limits[i].calendar()
		b.address(s, i)
	}
	now := int64(0)
	if calendars {
		now = s.clock()
	}
	sc := batchScripts.get(set, batchFiles)
	if b.isEach() {
		sc = eachScripts.get(set, eachFiles)
	}
	reply, err := s.run(ctx, sc, b.keys, b.args(set, now))
	if at, ok := outside(err); ok {
		reply, err = s.run(ctx, sc, b.keys, b.args(set, at))
	}
	if err != nil {
		return nil, err
	}
	if err := b.read(reply); err != nil {
		return nil, unknown(err)
	}
	return b, nil
}

// address finds the keys of a request's state and ban.
func (b *batch) address(s *Store, i int) {
	r, l := &b.rs[i], b.limits[i]
	stem := s.names.stem(r.Key)
	b.at[i].state = b.index(stem + l.state)
	if r.Ban != nil {
		b.at[i].ban = b.index(stem + l.ban)
	}
	if r.Hold > 0 {
		if b.holds == nil {
			b.holds = make([]uint64, len(b.rs))
		}
		b.holds[i], b.at[i].holds = translate.NewHold(), b.index(stem+holdsWord+l.state)
	}
}

// args returns the requests as the scripts read them, with the boundaries of calendars
// around a time.
func (b *batch) args(set uint, around int64) []string {
	args := make([]string, 0, 2)
	if set&^quickKinds == 0 && b.plain() {
		each, overdrawn := b.isEach(), slices.ContainsFunc(b.limits, func(l *limit) bool { return l.overdraft > 0 })
		switch {
		case each && !overdrawn:
			return append(args, b.quickArgs(0), "")
		case b.rs[0].Debit && !overdrawn:
			return append(args, b.quickArgs(set), debitText)
		case b.rs[0].Debit:
		case !each:
			args = append(args, b.quickArgs(set))
			if !overdrawn {
				return args // they have all that the rest of the script needs
			}
		}
	}
	text := appendList(make([]byte, 0, 48*len(b.rs)), len(b.rs))
	for i := range b.rs {
		r, l := &b.rs[i], b.limits[i]
		bounds := l.bounds(around)
		items := 5
		switch {
		case r.Hold > 0:
			items = 7
		case r.Ban != nil:
			items = 6
		}
		text = append(appendList(appendList(text, items), l.count), l.blob...)
		text = appendRequest(appendList(text, 4+len(bounds)), &b.requests[i], bounds)
		flags := int64(0)
		if r.Peek {
			flags |= 1
		}
		if r.Shadow {
			flags |= 2
		}
		flags += l.overdraft << 2
		for _, n := range [...]int64{flags, int64(b.at[i].state), int64(b.at[i].ban)} {
			text = appendInt(text, n)
		}
		if r.Ban != nil {
			terms := r.Ban.Terms()
			text = appendTerms(text, &terms)
		}
		if r.Hold > 0 {
			if r.Ban == nil {
				text = appendInt(text, 0) // there are no terms
			}
			text = appendInt(appendInt(appendList(text, 3), int64(b.at[i].holds)), int64(r.Hold/time.Microsecond))
			text = appendText(text, holdText(b.holds[i]))
		}
	}
	return append(args, string(text))
}

// quickKinds are the algorithms that batch_quick.lua decides.
const quickKinds = 1<<algo.KindBucket | 1<<algo.KindFixedWindow | 1<<algo.KindSlidingCounter

// isEach reports whether all requests are shadows, which are decided one after another.
func (b *batch) isEach() bool {
	return !slices.ContainsFunc(b.rs, func(r sluice.Request) bool { return !r.Shadow })
}

// plain reports whether batch_quick.lua may decide the batch. Each request must be for some
// units of a key of its own, and for nothing else. All are shadows, or all debits, or none is either. A
// denial must change nothing else.
func (b *batch) plain() bool {
	if len(b.keys) != len(b.rs) {
		return false
	}
	for i := range b.rs {
		r := &b.rs[i]
		if r.Cost == 0 || r.Floor != 0 || b.requests[i].MaxWait != 0 || r.Peek || r.Shadow != b.rs[0].Shadow || r.Debit != b.rs[0].Debit || r.Shadow && r.Debit || r.Overdraw || r.Hold > 0 || r.Ban != nil || b.limits[i].calendar() || b.limits[i].params.CountsDenied() {
			return false
		}
	}
	return true
}

// quickArgs returns the requests as batch_quick.lua or batch_buckets.lua reads them.
func (b *batch) quickArgs(set uint) string {
	if set == 1<<algo.KindFixedWindow {
		return b.windowArgs()
	}
	text := make([]byte, 0, 32*len(b.rs))
	for i, l := range b.limits {
		// The kind and up to three more numbers.
		words := l.words()
		from := 0
		if set == 1<<algo.KindBucket {
			from = 1
		}
		for _, n := range words[from:] {
			text = appendInt(text, n)
		}
		text = appendText(appendInt(text, min(b.requests[i].Cost, tooMany)), l.blob)
	}
	return string(text)
}

// windowArgs returns the requests as batch_windows.lua reads them. Requests in a row are one item if they have one limit
// and one cost.
func (b *batch) windowArgs() string {
	text := append(make([]byte, 0, 64), 0xc2) // false
	for i := 0; i < len(b.rs); {
		l, cost, first := b.limits[i], b.requests[i].Cost, i
		for i++; i < len(b.rs) && b.limits[i] == l && b.requests[i].Cost == cost; {
			i++
		}
		text = appendInt(text, int64(i-first))
		words := l.words()
		for _, n := range words[1:] {
			text = appendInt(text, n)
		}
		text = appendText(appendInt(text, min(cost, tooMany)), l.blob)
	}
	return string(text)
}

// fewKeys is the number of keys below which a search is faster than a map.
const fewKeys = 16

// index returns the index of a key among the keys of the call, from 1. It adds a new key.
func (b *batch) index(key string) int {
	if len(b.keys) < fewKeys {
		if i := slices.Index(b.keys, key); i >= 0 {
			return i + 1
		}
	} else {
		if b.byKey == nil {
			b.byKey = make(map[string]int, 2*len(b.rs))
			for i, k := range b.keys {
				b.byKey[k] = i + 1
			}
		}
		if i := b.byKey[key]; i > 0 {
			return i
		}
		b.byKey[key] = len(b.keys) + 1
	}
	b.keys = append(b.keys, key)
	return len(b.keys)
}

// Flags of a reply about a batch. A reply of batch_quick.lua has quickReply, and the texts at
// the keys, one after the other, in place of a list of views.
const (
	allPass    = 1
	quickReply = 2
)

// quickWords returns how many numbers come before the limit's numbers in a state's text.
func quickWords(k algo.Kind) int {
	if k == algo.KindSlidingCounter {
		return 5
	}
	return 4
}

// read reads the reply.
func (b *batch) read(reply string) error {
	b.views = make([]view, len(b.rs))
	if isCharged(reply) {
		return b.readCharged(reply)
	}
	in := reader{rest: reply}
	b.now = in.count()
	verdict := in.count()
	b.all = verdict&allPass != 0
	if verdict&quickReply == 0 {
		if n := in.list(); n != len(b.rs) {
			in.fail()
		}
	}
	for i := range b.views {
		v := &b.views[i]
		switch {
		case verdict&quickReply != 0:
			v.text = in.ints(quickWords(b.limits[i].params.Kind) + b.limits[i].count)
		case in.isList():
			in.list()
			v.text = in.text()
			v.ban = in.ban()
		default:
			v.text = in.text()
		}
		b.requests[i].Now = b.now
	}
	return in.err
}

// readCharged reads a reply of batch_buckets.lua or batch_windows.lua about a batch that passes: the states after it.
func (b *batch) readCharged(reply string) error {
	in := reader{rest: reply}
	b.all = true
	for i, l := range b.limits {
		b.views[i].text, b.now = l.uncharged(&in, b.requests[i].Cost)
		b.requests[i].Now = b.now
	}
	if in.more() {
		in.fail()
	}
	return in.err
}

// decisions computes the decision about each request. allowed reports whether the batch was
// charged.
func (b *batch) decisions(out []sluice.Decision, allowed bool) error {
	verdict := true
	for i := range b.rs {
		r := &b.rs[i]
		charged := (allowed || r.Shadow || debits(r)) && !r.Peek && (r.Cost > 0 || r.Shadow)
		q := b.requests[i]
		if r.Ban != nil && charged {
			terms := r.Ban.Terms()
			charged = terms.Banned(b.views[i].ban, b.now) == 0
			q.Debit = q.Debit && charged // the view has the debt
		}
		at := i
		if b.all && !allowed && !r.Shadow && !debits(r) {
			at = b.first(i) // what the slot has charged is given back
		}
		d, err := b.limits[i].decision(b.views[at].text, &q, !charged)
		if err != nil {
			return unknown(err)
		}
		if charged && r.Hold > 0 && d.Allowed && r.Cost > 0 {
			d.Receipt = sluice.Receipt{At: b.now, Over: b.holds[i]}
		}
		if r.Ban != nil {
			terms := r.Ban.Terms()
			d = withBan(&terms, b.views[i].ban, d, b.now)
		}
		if !r.Shadow {
			verdict = verdict && d.Allowed
			if !allowed && !r.Peek && !debits(r) {
				d.Receipt = sluice.Receipt{} // nothing was charged
			}
		}
		out[i] = d
	}
	if verdict != b.all {
		return unknown(errDisagree)
	}
	return nil
}

// debits reports whether a request is charged whether the batch is allowed or not.
func debits(r *sluice.Request) bool { return r.Debit && r.Cost > 0 && !r.Peek && !r.Shadow }

// first returns the first request for the key of request i that is not a debit. It was decided upon the state
// before the batch, with the debits charged. A
// view without an origin is only for requests under the same numbers.
func (b *batch) first(i int) int {
	for j := range i {
		if b.at[j].state == b.at[i].state && !b.rs[j].Shadow && !debits(&b.rs[j]) &&
			(b.limits[j] == b.limits[i] || kinds[b.limits[i].params.Kind].origin.skip != nil) {
			return j
		}
	}
	return i
}

// lasts reports whether a batch may have made changes that cannot be given back. These are
// changes of shadows' states, debits, changes of states and bans that count denials, and of leases that were
// held before.
func (b *batch) lasts() bool {
	for i := range b.rs {
		r := &b.rs[i]
		if !r.Peek && (r.Shadow || debits(r) || r.Ban != nil || !b.all && b.limits[i].params.CountsDenied() || b.all && b.renewed(i)) {
			return true
		}
	}
	return false
}
