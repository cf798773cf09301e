package sluice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// Ban says when and for how long a key that exceeds its limit is refused outright. The zero
// Ban bans nobody by itself, but enforces bans made by hand: see Banner. It is a value, safe for concurrent use.
type Ban struct {
	// After is how many denials in the time Within lead to a ban, 1 to 100,000,000. If it is zero,
	// and nothing else is set, only bans made by hand are enforced.
	After int64
	// Within is the time in which denials add up, from the first one. Default: For.
	Within time.Duration
	// For is how long a ban lasts. If bans escalate, it is how long the first ban lasts.
	For time.Duration
	// Escalate lists how long the second ban in a row lasts, the third, and so on. The last entry
	// holds for all further bans. At most 16 entries. Nil: all bans last For.
	Escalate []time.Duration
	// Forget is how long a key must be quiet, neither banned nor denied, until its next ban counts
	// as a first one. It is rounded up to seconds. Only bans that escalate may set it. Default:
	// the longest time that a ban lasts.
	Forget time.Duration
	// Prolong restarts the ban with each attempt of the banned key. Bans made by hand are
	// never prolonged.
	Prolong bool

	uncounted bool
}

// Uncounted returns the same ban for a request whose attempt must not count: a ban in force refuses it, but its denial
// leads to no ban, and prolongs none. Such a request may be decided again.
func (b *Ban) Uncounted() *Ban {
	terms := *b
	terms.uncounted = true
	return &terms
}

// BanError reports an invalid field of a Ban.
type BanError struct {
	// Field is the invalid field, such as "For" or "Escalate[1]".
	Field string
	// Problem says what is wrong.
	Problem string
	// Remedy says how to correct it.
	Remedy string
}

func (e *BanError) Error() string {
	return "sluice: ban: " + e.Field + " " + withRemedy(e.Problem, e.Remedy)
}

// Check returns a *BanError for each mistake, all joined. It returns nil for a valid ban.
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
		fail("Escalate", fmt.Sprintf("has %d entries", len(b.Escalate)), fmt.Sprintf("give up to %d", algo.MaxBanTimes))
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
		fail("Forget", is(b.Forget)+", but the bans do not escalate", "leave it out, or let the bans escalate")
	}
	return errors.Join(errs...)
}

// Banner is a Store that also lists banned keys, bans keys by hand and lifts bans; [As] finds it. The stores
// of packages memory and redisstore are Banners. A guard.Store is a Banner if the store that it
// wraps is one.
//
// Bans are enforced for the requests that carry a Ban, the zero Ban included. Requests without a
// Ban ignore bans and are decided a little faster.
// All methods are safe for concurrent use. Their errors are as in [Store]: nothing was changed, unless the error
// wraps ErrUnknownOutcome.
type Banner interface {
	Store
	// BanKey refuses a key of a limit outright for a time from now on: a millisecond to 100 years.
	// It replaces a ban in force, and forgets the denials counted towards a ban. Attempts do not
	// prolong it.
	BanKey(ctx context.Context, l *Limit, k Key, d time.Duration) error
	// LiftBan ends the ban of a limit's key and forgets the denials that led to it: the next
	// ban is a first one. It reports whether a ban was in force.
	LiftBan(ctx context.Context, l *Limit, k Key) (bool, error)
	// ListBans returns a page of the bans in force, in no particular order. A ban that is in force
	// from the first page to the last is on one of the pages, unless the store documents
	// otherwise.
	ListBans(ctx context.Context, q BanQuery) (BanPage, error)
}

// BanQuery selects a page of bans.
type BanQuery struct {
	// From is where the page begins: the Next of the page before. Empty for the first page.
	From string
	// Most is the approximate maximum of bans on the page, 1 to 1,000. Default: 100.
	Most int
}

// BanPage is some of the bans in force.
type BanPage struct {
	// Bans are the bans of the page.
	Bans []BannedKey
	// Next is where the next page begins. It is empty on the last page; a page that is not the
	// last one may hold no bans.
	Next string
}

// BannedKey is a ban in force.
type BannedKey struct {
	// Limit is the name of the limit, or the short form in which the store keeps a long name.
	Limit string
	// Key is the banned key.
	Key Key
	// Digest identifies the key if the store does not keep its text: Key is zero then.
	Digest string
	// Left is how long the ban still lasts.
	Left time.Duration
	// InRow is the number of the ban in its row if bans escalate, otherwise zero. It counts from 1
	// to one more than the length of Escalate, and stays there.
	InRow int
	// ByHand says that the ban was made with BanKey.
	ByHand bool
}
