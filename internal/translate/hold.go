package translate

import "math/rand/v2"

// A charge with a hold has the identity of the hold in place of Receipt.Over. The highest bit marks it: no algorithm needs
// that bit, and no charge with a hold waits, so that none needs Over.
const heldBit = 1 << 63

// NewHold returns the identity of a new hold.
func NewHold() uint64 { return rand.Uint64() | heldBit }

// IsHold reports whether the Over of a receipt is the identity of a hold.
func IsHold(over uint64) bool { return over&heldBit != 0 }
