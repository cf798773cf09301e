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
	laws    []*sluice.Limit // that the bounds hold
	recent  []extra         // what was admitted lately, and when
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
func newLedger(number int, laws []*sluice.Limit, at int64) *ledger {
	return &ledger{
		key: sluice.StringKey(strconv.Itoa(number)), laws: laws, bound: newBound(laws, at), plain: newBound(laws, at),
		charged: map[int64]int64{},
	}
}

// admit returns by how much units that are admitted exceed the bounds.
func (l *ledger) admit(units, at int64) (over, plain int64) {
	l.recent = append(l.recent, extra{units, at})
	return l.bound.admit(units, at), l.plain.admit(units, at)
}

// follow changes the limits that processes use. If their forms differ, the bounds begin again: with what was admitted
// in the last period if there are more limits, and with nothing if the processes have left one of them long ago.
func (l *ledger) follow(laws []*sluice.Limit, at int64) {
	same := true
	for _, x := range append(laws, l.laws...) {
		same = same && alike(laws[0], x)
	}
	more := len(laws) > len(l.laws)
	l.laws = laws
	if same {
		l.bound.follow(laws, at)
		l.plain.follow(laws, at)
		return
	}
	before := l.bound
	l.bound, l.plain = newBound(laws, at), newBound(laws, at)
	if b, ok := l.bound.(*slidingBound); ok && more {
		switch o := before.(type) {
		case *slidingBound:
			b.extras = o.extras
		case *windowBound:
			b.extras = o.extras
		}
		for _, x := range l.recent {
			if x.until > at-b.length && x.until <= at {
				l.bound.admit(x.units, x.until)
				l.plain.admit(x.units, x.until)
			}
		}
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
