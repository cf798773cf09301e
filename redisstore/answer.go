package redisstore

import (
	"math"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// answer computes the answer to a question from the view that the script decided
// upon. One that takes nothing says what could be taken now.
func (l *limit) answer(view string, a *algo.Ask, peek bool) (sluice.Decision, error) {
	var state algo.State
	var words []uint64
	in := reader{rest: view}
	k := &kinds[l.params.Kind]
	if state, words = k.read(&in, l.params); in.err != nil {
		return sluice.Decision{}, in.err
	}
	var ans algo.Answer
	if peek {
		l.params.Peek(state, words, a, &ans)
	} else {
		l.params.Answer(state, words, a, &ans)
	}
	return sluice.Decision{
		Allowed:    ans.Allowed,
		Reason:     sluice.Reason(ans.Reason),
		Limit:      l.params.Capacity,
		Remaining:  ans.Remaining,
		Delay:      duration(ans.Delay),
		RetryAfter: duration(ans.RetryAfter),
		ResetAfter: duration(ans.ResetAfter),
		Receipt:    sluice.Receipt{At: ans.At, Over: ans.Over},
	}, nil
}

// duration returns microseconds as a time.Duration, or the longest one that it holds.
func duration(micros int64) time.Duration {
	return time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond
}
