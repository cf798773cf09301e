package hybrid

import (
	"time"

	"github.com/sluicehq/sluice/driver"
)

// trick is a defect of a process. The link plays it, so that the store under test needs no switches: the
// server sees what it would see of a store with the defect.
type trick uint8

// The tricks.
const (
	noTrick          trick = iota
	deadlineOfAnswer       // a deadline runs from the answer, not from the call
	numbersRetries         // a claim that is repeated has a new sequence number
	returnsAndSpends       // units are returned before they are deducted
	ignoresExpiry          // a grant has no deadline
	monotonicOnly          // a deadline ignores the time for which the computer was suspended
	keepsReports           // spends are never reported
	tricks
)

func (t trick) String() string {
	return [...]string{
		"has no defect", "counts a deadline from the answer", "numbers a repeated claim again",
		"spends what it returns", "ignores deadlines", "has deadlines by the monotonic clock only", "never reports",
	}[t]
}

// claim returns what the server gets instead of a claim.
func (t trick) claim(l *link, c driver.Claim) driver.Claim {
	switch t {
	case numbersRetries:
		n := l.attempts[c.Seq]
		l.attempts[c.Seq]++
		c.Seq = c.Seq<<8 + n
	case returnsAndSpends:
		if c.Birth != 0 && c.Returned == 0 {
			c.Returned = 1 + l.chance.Int64N(20)
		}
	case keepsReports:
		if c.Birth != 0 {
			c.Returned += c.Spent
			c.Spent = 0
		}
	}
	return c
}

// grant returns what the process gets instead of an answer after some time.
func (t trick) grant(g driver.Grant, took time.Duration) driver.Grant {
	switch t {
	case deadlineOfAnswer:
		g.Till += took.Microseconds()
	case ignoresExpiry:
		g.Till += time.Hour.Microseconds()
	}
	return g
}
