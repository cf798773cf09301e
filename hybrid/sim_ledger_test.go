package hybrid

import (
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

// ledger is what is known about one key.
type ledger struct {
	sums
	key     sluice.Key
	bound   bound           // with what faults may add
	plain   bound           // without
	worst   int64           // the most units beyond the plain limit
	refund  time.Time       // the last one
	charged map[int64]int64 // by the server's receipts of exact charges: when the bounds count the charges
}

// sums are units so far.
type sums struct {
	given   int64 // charged by the server, or granted
	credits int64 // reported as spent on credit
}

// newLedger returns the ledger of a key by its number.
func newLedger(number int, l *sluice.Limit, at int64) *ledger {
	return &ledger{
		key: sluice.StringKey(strconv.Itoa(number)), bound: newBound(l, at), plain: newBound(l, at),
		charged: map[int64]int64{},
	}
}

// ledger returns the ledger of a key.
func (w *world) ledger(k sluice.Key) *ledger {
	number, err := strconv.Atoi(k.Text())
	if err != nil {
		panic(err)
	}
	return w.ledgers[number]
}
