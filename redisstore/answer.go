package redisstore

import (
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// answer computes the answer to a question from the view that the script decided
// upon. One that takes nothing says what could be taken now.
func (l *limit) answer(view string, a *algo.Request, peek bool) (sluice.Decision, error) {
	var state algo.State
	var words []uint64
	in := reader{rest: view}
	k := &kinds[l.params.Kind]
	if state, words = k.read(&in, l.params); in.err != nil {
		return sluice.Decision{}, in.err
	}
	var ans algo.Result
	if peek {
		l.params.Peek(state, words, a, &ans)
	} else {
		l.params.Evaluate(state, words, a, &ans)
	}
	return translate.Decision(l.params, &ans), nil
}
