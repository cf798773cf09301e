package redisstore

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// limit holds what the store has computed for a limit.
type limit struct {
	of     *sluice.Limit
	params *algo.Params
	state  string // the end of its states' keys, after the stem
	ban    string // the end of its bans' keys
	blob   string // the numbers, as scripts read them
	count  int    // how many numbers there are

	overdraft int64 // how far units in escrow may exceed the limit, at most maxOverdraft
}

// maxOverdraft is the largest overdraft that scripts accept beside the flags of a request.
const maxOverdraft = exact >> 3

// limits holds the limits that were used lately. It is bounded, because programs may make
// limits all the time.
type limits [1024]atomic.Pointer[limit]

func (ls *limits) get(l *sluice.Limit) *limit {
	entry := &ls[l.ID()[0]%uint64(len(ls))]
	if known := entry.Load(); known != nil && known.of == l {
		return known
	}
	name := suffix(l)
	known := &limit{of: l, params: l.Params(), ban: "!" + name}
	known.state = kinds[known.params.Kind].word + ":" + name
	known.blob, known.count = numbers(known.params)
	if h := l.Hybrid(); h != nil {
		known.overdraft = min(h.Overdraft, maxOverdraft)
	}
	entry.Store(known)
	return known
}

// replied computes the decision about a single request from the reply.
func (l *limit) replied(reply string, q *algo.Request, peek bool) (sluice.Decision, error) {
	if strings.HasPrefix(reply, chargedReply) {
		return l.charged(reply, q)
	}
	in := reader{rest: reply}
	q.Now = in.count()
	allowed := in.count() == 1
	if in.err != nil {
		return sluice.Decision{}, in.err
	}
	d, err := l.decision(in.rest, q, peek)
	if err == nil && d.Allowed != allowed {
		err = errDisagree
	}
	return d, err
}

// decision computes the decision about a request from the view that the script decided
// upon. A decision that takes nothing reports what could be taken now.
func (l *limit) decision(view string, q *algo.Request, peek bool) (sluice.Decision, error) {
	in := reader{rest: view}
	kind := &kinds[l.params.Kind]
	state, words := kind.read(&in, l.params)
	held := uint64(0)
	if kind.origin.skip != nil && view != "" && in.rest != l.blob {
		var escrowed bool
		if held, escrowed = l.held(in.rest); !escrowed {
			return l.converted(view, q, peek)
		}
	}
	if in.err != nil {
		return sluice.Decision{}, in.err
	}
	var result algo.Result
	l.evaluate(state, words, q, peek, &result)
	if in.awaits && (!result.Allowed || q.Cost == 0) {
		l.params.Log.Awaited(q, &result, in.until, in.reset, uint64(in.left))
	}
	result.Over -= min(result.Over, held) // the escrow waits with the request, but is not in the state
	return translate.Decision(l.params, &result), nil
}

// chargedReply begins a reply of bucket_quick.lua or batch_buckets.lua about requests that pass: the
// kind of a state, and the first byte of its time. Other replies begin with the server's time.
const chargedReply = "\x01\xcf"

// before reads the state of a token bucket after a charge. It returns the time of the charge, and what
// was missing before it at that time: whole units, and a fraction of a unit.
func (l *limit) before(after *reader, cost int64) (at, units, fraction int64) {
	if after.count() != int64(algo.KindBucket) {
		after.fail()
	}
	at, units, fraction = after.count(), after.count(), after.count()
	if units < cost || after.next(len(l.blob)) != l.blob {
		after.fail()
		return 0, 0, 0
	}
	return at, units - cost, fraction
}

// uncharged returns the view of the state before a charge, and the time of the charge.
func (l *limit) uncharged(after *reader, cost int64) (view string, now int64) {
	now, units, fraction := l.before(after, cost)
	var room [64]byte // most fit
	text := appendInt(appendInt(room[:0], int64(algo.KindBucket)), now)
	return string(append(appendInt(appendInt(text, units), fraction), l.blob...)), now
}

// charged is decision for a reply with the state after the charge.
func (l *limit) charged(reply string, q *algo.Request) (sluice.Decision, error) {
	in := reader{rest: reply}
	at, units, fraction := l.before(&in, q.Cost)
	missing, ok := joined(units, fraction, l.params.Bucket.Pace)
	if in.err != nil || in.more() || !ok {
		return sluice.Decision{}, errReply
	}
	q.Now = at
	var result algo.Result
	l.params.DecideState(l.params.Bucket.Restore(at, missing, false), q, &result)
	if !result.Allowed {
		return sluice.Decision{}, errDisagree
	}
	return translate.Decision(l.params, &result), nil
}

// held reads the end of the view of a bucket, from the limit's numbers on: the units of the escrow
// come after them. It returns their ticks, and whether there are any.
func (l *limit) held(rest string) (ticks uint64, ok bool) {
	text, ok := strings.CutPrefix(rest, l.blob)
	if !ok || l.params.Kind != algo.KindBucket {
		return 0, false
	}
	in := reader{rest: text}
	units := in.count()
	if in.err != nil || in.more() {
		return 0, false
	}
	ticks, ok = joined(units, 0, l.params.Bucket.Pace)
	return ticks, ok
}

func (l *limit) evaluate(state algo.State, words []uint64, q *algo.Request, peek bool, result *algo.Result) {
	if peek {
		l.params.Peek(state, words, q, result)
	} else {
		l.params.Evaluate(state, words, q, result)
	}
}

// converted is decision for a view of a state that is kept under other numbers.
func (l *limit) converted(view string, q *algo.Request, peek bool) (sluice.Decision, error) {
	p := l.params
	from, old, oldWords, err := kinds[p.Kind].origin.read(view, p, l.count)
	if err != nil {
		return sluice.Decision{}, err
	}
	state, words := convert(p, &from, old, oldWords, q.Now)
	var result algo.Result
	l.evaluate(state, words, q, peek, &result)
	switch {
	case result.Allowed && q.Cost > 0:
	case p.Inline() && !p.MovesState(&from, old, q.Now):
		p.AwaitState(&from, old, q, &result)
	case !p.Inline() && !p.MovesWords(&from, oldWords, q.Now):
		p.AwaitWords(&from, oldWords, q, &result)
	}
	return translate.Decision(p, &result), nil
}

// convert converts a state to other numbers.
func convert(p, from *algo.Params, state algo.State, words []uint64, now int64) (algo.State, []uint64) {
	if p.Inline() {
		return p.ConvertState(from, state, now), nil
	}
	least, _ := p.Words()
	converted := make([]uint64, max(least, len(words)))
	p.ConvertWords(from, converted, words, now)
	return algo.State{}, converted
}

// calendar reports whether the limit's windows follow a calendar. Scripts need its
// boundaries then.
func (l *limit) calendar() bool {
	return l.params.Kind == algo.KindFixedWindow && l.params.Fixed.Calendar != nil
}

// bounds returns the boundaries of the limit's calendar around some times; nil without a
// calendar.
func (l *limit) bounds(around ...int64) []int64 {
	if !l.calendar() {
		return nil
	}
	return bounds(l.params.Fixed.Calendar, around...)
}

// bounds returns boundaries of a calendar's periods, in order. For each time, they are the
// boundaries of the period that holds it, of the period before, and of three periods
// after. If the times are far apart, boundaries between them are missing. A script detects
// such a gap by its length.
func bounds(c *algo.Calendar, around ...int64) []int64 {
	const ahead = 3
	all := make([]int64, 0, (3+ahead)*len(around))
	for _, t := range around {
		start, end := c.Start(t), c.End(t)
		all = append(all, c.Start(start-1), start, end)
		for range ahead {
			end = c.End(end)
			all = append(all, end)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
