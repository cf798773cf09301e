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
	ans := l.decide(state, words, a)
	if peek && ans.Allowed && a.Cost > 0 {
		none := algo.Ask{Now: a.Now, Floor: a.Floor, MaxWait: a.MaxWait}
		ans.Remaining = l.decide(state, words, &none).Remaining
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

func (l *limit) decide(state algo.State, words []uint64, a *algo.Ask) (ans algo.Answer) {
	if l.params.Inline() {
		l.params.DecideState(state, a, &ans)
		return ans
	}
	return l.params.DecideWords(words, *a, false)
}

// duration returns microseconds as a time.Duration, or the longest one that it holds.
func duration(micros int64) time.Duration {
	return time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond
}
