package redisstore

import (
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// limit is what the store knows of a limit.
type limit struct {
	of     *sluice.Limit
	params *algo.Params
	state  string // what the keys of its states end with, after the stem
	ban    string // what those of its bans do
	blob   string // the numbers, as scripts read them
	count  int    // of the numbers
}

// limits holds those that were asked for lately, so that a program that makes
// limits on the fly fills nothing.
type limits [1024]atomic.Pointer[limit]

func (ls *limits) get(l *sluice.Limit) *limit {
	place := &ls[l.ID()[0]%uint64(len(ls))]
	if known := place.Load(); known != nil && known.of == l {
		return known
	}
	name := suffix(l)
	known := &limit{of: l, params: l.Params(), ban: "!" + name}
	known.state = kinds[known.params.Kind].word + ":" + name
	known.blob, known.count = numbers(known.params)
	place.Store(known)
	return known
}

// calendar reports whether the limit's windows are those of a calendar, so that its
// scripts must be told boundaries.
func (l *limit) calendar() bool {
	return l.params.Kind == algo.KindFixedWindow && l.params.Fixed.Calendar != nil
}

// bounds returns those boundaries of the limit's calendar that are next to times; nil
// if it follows none.
func (l *limit) bounds(around ...int64) []int64 {
	if !l.calendar() {
		return nil
	}
	return bounds(l.params.Fixed.Calendar, around...)
}
