package redisstore

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
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
	entry := &ls[translate.LimitHash(l)%uint64(len(ls))]
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

// words returns the kind of a limit, and up to three more numbers.
func (l *limit) words() (n [4]int64) {
	in := reader{rest: l.blob}
	for i := range min(l.count, len(n)) {
		n[i] = in.int()
	}
	return n
}

// replied computes the decision about a single request from the reply.
func (l *limit) replied(reply string, q *algo.Request, peek bool) (sluice.Decision, error) {
	if isCharged(reply) {
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
	if in.awaits && q.Debit {
		q = withoutDebit(q)
	}
	var result algo.Result
	l.evaluate(state, words, q, peek, &result)
	if in.awaits && (peek || !result.Allowed || q.Cost == 0) {
		l.params.Log.Awaited(q, &result, in.until, in.reset, uint64(in.left))
	}
	result.Over -= min(result.Over, held) // the escrow waits with the request, but is not in the state
	return translate.Decision(l.params, &result), nil
}

// isCharged reports whether a reply is about requests that pass, and has the states after them. Such a reply
// begins with the kind of a state, and the first byte of a time. Other replies begin with the server's time.
func isCharged(reply string) bool {
	return len(reply) > 1 && reply[1] == 0xcf && (reply[0] == byte(algo.KindBucket) || reply[0] == byte(algo.KindFixedWindow))
}

// before reads the text of a state after a charge. It returns the time of the charge, and the state before it as
// of that time. A token bucket has the time of the charge, and what is missing: whole units, and a fraction of a
// unit. A fixed window has its end, the units, and the time of the charge.
func (l *limit) before(after *reader, cost int64) (state [3]int64, now int64) {
	if after.count() != int64(l.params.Kind) {
		after.fail()
	}
	for i := range state {
		state[i] = after.count()
	}
	state[1] -= cost
	if state[1] < 0 || after.next(len(l.blob)) != l.blob {
		after.fail()
		return [3]int64{}, 0
	}
	if l.params.Kind == algo.KindFixedWindow {
		return state, state[2]
	}
	return state, state[0]
}

// uncharged returns the view of the state before a charge, and the time of the charge. A window that the charge has
// opened was fresh before.
func (l *limit) uncharged(after *reader, cost int64) (view string, now int64) {
	state, now := l.before(after, cost)
	if w := &l.params.Fixed; l.params.Kind == algo.KindFixedWindow && w.Opened && state[1] == 0 && state[0]-now == w.Length {
		return "", now
	}
	var room [64]byte // most fit
	text := appendInt(room[:0], int64(l.params.Kind))
	for _, n := range state {
		text = appendInt(text, n)
	}
	return string(append(text, l.blob...)), now
}

// charged is decision for a reply with the state after the charge.
func (l *limit) charged(reply string, q *algo.Request) (sluice.Decision, error) {
	in := reader{rest: reply}
	before, now := l.before(&in, q.Cost)
	var state algo.State
	if l.params.Kind == algo.KindFixedWindow {
		state = l.params.Fixed.Restore(before[0], uint64(before[1]), now)
	} else {
		missing, ok := joined(before[1], before[2], l.params.Bucket.Pace)
		if !ok {
			in.fail()
		}
		state = l.params.Bucket.Restore(now, missing, false)
	}
	if in.more() {
		in.fail()
	}
	if in.err != nil {
		return sluice.Decision{}, in.err
	}
	q.Now = now
	var result algo.Result
	l.params.DecideState(state, q, &result)
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
	moves := p.Inline() && p.MovesState(&from, old, q.Now) || !p.Inline() && p.MovesWords(&from, oldWords, q.Now)
	fresh := p.Inline() && from.FreshState(old, q.Now) || !p.Inline() && from.FreshWords(oldWords, q.Now)
	if q.Debit && !moves && !fresh {
		q = withoutDebit(q)
	}
	var result algo.Result
	l.evaluate(state, words, q, peek, &result)
	switch {
	case !peek && q.Cost > 0 && (result.Allowed || q.Debit): // it is charged under these numbers
	case moves:
	case p.Inline():
		p.AwaitState(&from, old, q, &result)
	default:
		p.AwaitWords(&from, oldWords, q, &result)
	}
	return translate.Decision(p, &result), nil
}

// withoutDebit returns a request about a state that is kept under other numbers. If a debit was denied, the view has the
// debt.
func withoutDebit(q *algo.Request) *algo.Request {
	plain := *q
	plain.Debit = false
	return &plain
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
