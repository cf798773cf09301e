package sluice

import (
	"context"
	"fmt"
	"time"
)

// Banner is a Store that also lists the keys that are banned, and lets them be banned and
// let in by hand. The stores of packages memory and redisstore are Banners, and one of
// package guard is if what it stands over is.
//
// A ban holds for the requests that carry a Ban: those that have terms for denials, and
// those whose Ban is zero. Other requests, which are decided a little faster, look after
// no ban.
type Banner interface {
	Store
	// BanKey refuses a key of a limit outright for a time from now on: a millisecond to 100
	// years. The ban takes the place of one that is in force, and of denials that count.
	// Attempts do not prolong it.
	BanKey(ctx context.Context, l *Limit, k Key, d time.Duration) error
	// LiftBan ends the ban of a limit's key, and forgets what led to it: the next one is a
	// first one. It reports whether there was a ban in force.
	LiftBan(ctx context.Context, l *Limit, k Key) (bool, error)
	// ListBans returns a page of the bans in force, in no order that means anything. A ban
	// that is in force all the while is on some page, unless the store says otherwise.
	ListBans(ctx context.Context, q BanQuery) (BanPage, error)
}

// BanQuery asks for a page of bans.
type BanQuery struct {
	// From is where the page begins: BanPage.Next of the one before, empty for the first.
	From string
	// Most is about how many bans the page holds at most, up to 1,000. Default: 100.
	Most int
}

// Complete returns the query with the default in place, or an error.
func (q BanQuery) Complete() (BanQuery, error) {
	switch {
	case q.Most == 0:
		q.Most = 100
	case q.Most < 0 || q.Most > 1000:
		return q, &RequestError{Problem: fmt.Sprintf("for a page of %d bans: give 1 to 1000", q.Most)}
	}
	return q, nil
}

// BanPage is some of the bans in force.
type BanPage struct {
	Bans []BannedKey
	// Next is where the next page begins, empty after the last one. A page may be empty and
	// not the last one.
	Next string
}

// BannedKey is a ban in force.
type BannedKey struct {
	// Limit is the name of the limit, or what the store keeps in its place if it is long.
	Limit string
	// Key is whose ban it is.
	Key Key
	// Digest stands for the key if the store does not keep the text of it: Key is zero then.
	Digest string
	// Left is how long the ban still lasts.
	Left time.Duration
	// InRow tells which ban in a row it is, from 1, if bans escalate. Zero if they do not.
	InRow int
	// ByHand says that somebody made it with BanKey.
	ByHand bool
}

// CheckBan reports why no key can be banned for a time by hand, with a *RequestError, or nil.
func CheckBan(l *Limit, d time.Duration) error {
	switch {
	case l == nil:
		return &RequestError{Problem: "has no limit"}
	case d < time.Millisecond || d > maxPeriod:
		return &RequestError{Limit: l.Name(), Problem: fmt.Sprintf("a ban lasts for %v; give a millisecond to 100 years", d)}
	}
	return nil
}
