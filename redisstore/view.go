package redisstore

import "github.com/sluicehq/sluice/algo"

// holds reports whether a view holds a state, which is of a kind then; that of a
// fresh one is empty. The number of the kind comes first.
func (r *reader) holds(k algo.Kind) bool {
	if !r.more() {
		return false
	}
	if r.count() != int64(k) {
		r.fail()
		return false
	}
	return true
}
