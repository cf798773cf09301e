package sluice

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/algo"
)

// Ban says when and for how long a key that runs over its limit is refused
// outright. The zero Ban bans nobody by itself, but lets a key be banned by hand: see Banner.
type Ban struct {
	// After is how many denials within Within lead to a ban, 1 to 100,000,000. Zero, with
	// nothing else set, leaves bans to who makes them by hand.
	After int64
	// Within is the time in which denials add up, from the first one. Zero means For.
	Within time.Duration
	// For is how long the ban lasts, or the first one if they escalate.
	For time.Duration
	// Escalate is how long the second ban in a row lasts, the third and so on; the last time
	// stands for all further ones. Up to 16. Nil: all bans last For.
	Escalate []time.Duration
	// Forget is how long a key must have been quiet for its next ban to be a first one
	// again: neither banned nor with a denial that counts. It is rounded up to
	// seconds. Zero means the longest time that a ban lasts. Only bans that escalate have it.
	Forget time.Duration
	// Prolong lets each attempt of a banned key begin its ban anew. Without it, attempts
	// do not prolong a ban. Those by hand are never prolonged.
	Prolong bool
}

// BanError reports terms that make no ban.
type BanError struct {
	// Field is the one at fault, such as "For" or "Escalate[1]".
	Field string
	// Problem says what is wrong.
	Problem string
	// Remedy says what would be right.
	Remedy string
}

func (e *BanError) Error() string {
	return "sluice: ban: " + e.Field + " " + withRemedy(e.Problem, e.Remedy)
}

// Check reports why no request can have these terms: the errors joined, a *BanError for each
// mistake, or nil.
func (b *Ban) Check() error {
	var errs []error
	fail := func(field, problem, remedy string) {
		errs = append(errs, &BanError{Field: field, Problem: problem, Remedy: remedy})
	}
	is := func(value any) string { return fmt.Sprintf("is %v", value) }
	if b.After == 0 && b.Within == 0 && b.For == 0 && len(b.Escalate) == 0 && b.Forget == 0 && !b.Prolong {
		return nil
	}
	switch {
	case b.After < 1:
		fail("After", is(b.After), "give 1 or more denials")
	case b.After > algo.MaxBanDenials:
		fail("After", is(b.After), fmt.Sprintf("give %d denials or fewer", algo.MaxBanDenials))
	}
	const lasts = "give a millisecond to 100 years"
	if b.For < time.Millisecond || b.For > maxPeriod {
		fail("For", is(b.For), lasts)
	}
	if b.Within < 0 || b.Within > maxPeriod {
		fail("Within", is(b.Within), "give 0 to 100 years")
	}
	if len(b.Escalate) > algo.MaxBanTimes {
		fail("Escalate", fmt.Sprintf("has %d times", len(b.Escalate)), fmt.Sprintf("give up to %d", algo.MaxBanTimes))
	}
	for i, d := range b.Escalate {
		if d < time.Millisecond || d > maxPeriod {
			fail(fmt.Sprintf("Escalate[%d]", i), is(d), lasts)
		}
	}
	switch {
	case b.Forget < 0 || b.Forget > maxPeriod:
		fail("Forget", is(b.Forget), "give 0 to 100 years")
	case b.Forget > 0 && len(b.Escalate) == 0:
		fail("Forget", is(b.Forget)+", and all bans last as long", "leave it out, or say how they escalate")
	}
	return errors.Join(errs...)
}

// Terms returns what stores decide by.
func (b *Ban) Terms() algo.Ban {
	t := algo.Ban{
		After: b.After, Within: int64(b.Within / time.Microsecond), For: int64(b.For / time.Microsecond),
		Escalate: b.Escalate, Prolong: b.Prolong,
	}
	if t.Within == 0 {
		t.Within = t.For
	}
	if len(b.Escalate) > 0 {
		forget := b.Forget
		if forget == 0 {
			forget = b.For
			for _, d := range b.Escalate {
				forget = max(forget, d)
			}
		}
		t.Forget = int64((forget + time.Second - 1) / time.Second)
	}
	return t
}
