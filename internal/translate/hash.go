package translate

import "github.com/sluicehq/sluice"

// LimitHash returns a hash of a limit's name and numbers, which is good in the low bits. Stores cache what they know about
// limits by it. By a hash of the name only, all overrides of a rule would replace each other.
func LimitHash(l *sluice.Limit) uint64 {
	return l.ID()[0] + uint64(l.Capacity()) + uint64(l.TimeToFull())>>12 // many times have zeros in the lowest bits
}
