package guard

import "github.com/sluicehq/sluice"

// layer is who granted a charge.
type layer uint8

const (
	byStore layer = iota
	byLocal
	byNobody // Allow
)

// Receipts of algorithms are times in microseconds, or complements of such: of At's
// highest bits, the first three are equal until the year 75,000. A receipt that this
// package made has the second or third flipped, which leaves the rest as it was.
const (
	localBit  = 1 << 62
	nobodyBit = 1 << 61
)

// mark returns the receipt of a charge that a layer granted.
func mark(r sluice.Receipt, by layer) sluice.Receipt {
	switch by {
	case byLocal:
		r.At ^= localBit
	case byNobody:
		r.At ^= nobodyBit
	}
	return r
}

// unmark returns who granted the charge of a receipt, and the receipt as it was.
func unmark(r sluice.Receipt) (sluice.Receipt, layer) {
	sign := r.At >> 63
	switch {
	case (r.At^sign)&localBit != 0:
		r.At ^= localBit
		return r, byLocal
	case (r.At^sign)&nobodyBit != 0:
		r.At ^= nobodyBit
		return r, byNobody
	default:
		return r, byStore
	}
}
