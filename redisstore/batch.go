package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// maxBatch bounds the requests that are decided as one: a script holds up the server.
const maxBatch = 1000

// DecideAll answers several requests as one, by one call; on a cluster, by one for
// each slot. See sluice.Store.
//
// On a cluster with keys in several slots, these are decided in parallel, and what
// was charged is given back if another slot denies. In between, others may be
// denied for it. When the outcome in one slot is unknown, nothing is given back there.
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

// batch is requests whose keys are in one slot.
type batch struct {
	rs     []sluice.Request
	asks   []algo.Request
	limits []*limit
	places []address
	keys   []string
	byKey  map[string]int // of many: their numbers

	now   int64
	all   bool
	views []view
}

// address says which of the keys are those of a request: from 1, and 0 for no ban.
type address struct{ state, ban int }

// view is what a request was decided upon.
type view struct {
	text string
	ban  algo.State
}

// batchScripts are those that have been asked for, by the set of their algorithms.
var batchScripts [1 << len(kinds)]atomic.Pointer[script]

// batchScript returns the script that knows a set of algorithms.
func batchScript(set uint) *script {
	if sc := batchScripts[set].Load(); sc != nil {
		return sc
	}
	texts := []string{nowText}
	if set&^quickKinds == 0 {
		texts = append(texts, batchQuick)
	}
	needs, of := uint(0), []string(nil)
	for i := range kinds {
		if set&(1<<i) != 0 {
			needs |= kinds[i].needs
			of = append(of, kinds[i].script)
		}
	}
	texts = append(append(texts, prelude, fragmentsOf(needs)), of...)
	sc := newScript(append(texts, batchMain)...)
	batchScripts[set].Store(sc)
	return sc
}

// decideSlot answers requests by one call.
func (s *Store) decideSlot(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	b, err := s.ask(ctx, rs)
	if err != nil {
		return err
	}
	return b.answer(out, b.all)
}

// ask calls the server.
func (s *Store) ask(ctx context.Context, rs []sluice.Request) (*batch, error) {
	b := &batch{
		rs: rs, asks: make([]algo.Request, len(rs)), limits: make([]*limit, len(rs)),
		places: make([]address, len(rs)), keys: make([]string, 0, len(rs)),
	}
	set, calendars := uint(0), false
	for i := range rs {
		b.limits[i], b.asks[i] = s.limits.get(rs[i].Limit), ask(&rs[i])
		set |= 1 << b.limits[i].params.Kind
		calendars = calendars || b.limits[i].calendar()
		b.address(s, i)
	}
	now := int64(0)
	if calendars {
		now = s.clock()
	}
	sc := batchScript(set)
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

// address says where the state and the ban of a request are.
func (b *batch) address(s *Store, i int) {
	r, l := &b.rs[i], b.limits[i]
	stem := s.names.stem(r.Key)
	b.places[i].state = b.index(stem + l.state)
	if r.Ban != nil {
		b.places[i].ban = b.index(stem + l.ban)
	}
}

// args writes the requests as the script reads them, for calendars around a time.
func (b *batch) args(set uint, around int64) []string {
	text := appendList(make([]byte, 0, 48*len(b.rs)), len(b.rs))
	for i := range b.rs {
		r, l := &b.rs[i], b.limits[i]
		bounds := l.bounds(around)
		items := 5
		if r.Ban != nil {
			items = 6
		}
		text = append(appendList(appendList(text, items), l.count), l.blob...)
		text = appendQuestion(appendList(text, 4+len(bounds)), &b.asks[i], bounds)
		flags := int64(0)
		if r.Peek {
			flags |= 1
		}
		if r.Shadow {
			flags |= 2
		}
		for _, n := range [...]int64{flags, int64(b.places[i].state), int64(b.places[i].ban)} {
			text = appendInt(text, n)
		}
		if r.Ban != nil {
			terms := r.Ban.Terms()
			text = appendTerms(text, &terms)
		}
	}
	args := append(make([]string, 0, 2), string(text))
	if set&^quickKinds == 0 && b.plain() {
		args = b.quickArgs(args)
	}
	return args
}

// quickKinds are the algorithms that batch_quick.lua knows.
const quickKinds = 1<<algo.KindBucket | 1<<algo.KindFixedWindow | 1<<algo.KindSlidingCounter

// plain reports whether the batch is one for batch_quick.lua, in which a denial changes
// nothing: each request for some units of a key of its own, and nothing else.
func (b *batch) plain() bool {
	if len(b.keys) != len(b.rs) {
		return false
	}
	for i := range b.rs {
		r := &b.rs[i]
		if r.Cost == 0 || r.Floor != 0 || r.MaxWait != 0 || r.Peek || r.Shadow || r.Ban != nil || b.limits[i].calendar() || b.limits[i].params.CountsDenied() {
			return false
		}
	}
	return true
}

// quickArgs appends what batch_quick.lua reads.
func (b *batch) quickArgs(args []string) []string {
	text := make([]byte, 0, 32*len(b.rs))
	for i, l := range b.limits {
		// The kind and three numbers, of what may be fewer.
		in, n := reader{rest: l.blob}, [4]int64{}
		for j := range min(l.count, len(n)) {
			n[j] = in.int()
		}
		for _, n := range n {
			text = appendInt(text, n)
		}
		text = appendText(appendInt(text, min(b.asks[i].Cost, toomany)), l.blob)
	}
	return append(args, string(text))
}

// fewKeys are found sooner by looking through them than in a map.
const fewKeys = 16

// index returns the number of a key among those of the call, from 1.
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

// What a reply says of a batch; that of batch_quick.lua adds quickReply, and has what was
// kept at the keys, one after the other, in place of a list of views.
const (
	allPass    = 1
	quickReply = 2
)

// quickWords returns how many numbers come before those of the limit in a value.
func quickWords(k algo.Kind) int {
	if k == algo.KindFixedWindow {
		return 3
	}
	return 4
}

// read reads the reply.
func (b *batch) read(reply string) error {
	in := reader{rest: reply}
	b.now = in.count()
	verdict := in.count()
	b.all = verdict&allPass != 0
	b.views = make([]view, len(b.rs))
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
		b.asks[i].Now = b.now
	}
	return in.err
}

// answer tells each request its answer; allowed says that the batch was charged.
func (b *batch) answer(out []sluice.Decision, allowed bool) error {
	verdict := true
	for i := range b.rs {
		r := &b.rs[i]
		charged := (allowed || r.Shadow) && !r.Peek && (r.Cost > 0 || r.Shadow)
		d, err := b.limits[i].answer(b.views[i].text, &b.asks[i], !charged)
		if err != nil {
			return unknown(err)
		}
		if r.Ban != nil {
			terms := r.Ban.Terms()
			d = withBan(&terms, b.views[i].ban, d, b.now)
		}
		if !r.Shadow {
			verdict = verdict && d.Allowed
			if !allowed && !r.Peek {
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

// lasts reports whether a batch may have changed what is not given back: the states of
// shadows, what counts denials, and leases that were held before.
func (b *batch) lasts() bool {
	for i := range b.rs {
		r := &b.rs[i]
		if !r.Peek && (r.Shadow || r.Ban != nil || !b.all && b.limits[i].params.CountsDenied() || b.all && b.renewed(i)) {
			return true
		}
	}
	return false
}
