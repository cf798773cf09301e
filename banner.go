package sluice

import (
	"context"
	"time"
)

// Banner is a Store that also lists banned keys, bans keys by hand and lifts bans. The stores
// of packages memory and redisstore are Banners. A guard.Store is a Banner if the store that it
// wraps is one.
//
// Bans are enforced for the requests that carry a Ban, the zero Ban included. Requests without
// one are decided a little faster and ignore bans.
type Banner interface {
	Store
	// BanKey refuses a key of a limit outright for a time from now on: a millisecond to 100
	// years. It replaces a ban in force, and the denials that have counted towards a ban.
	// Attempts do not prolong it.
	BanKey(ctx context.Context, l *Limit, k Key, d time.Duration) error
	// LiftBan ends the ban of a limit's key and forgets the denials that led to it: the next
	// ban is a first one. It reports whether a ban was in force.
	LiftBan(ctx context.Context, l *Limit, k Key) (bool, error)
	// ListBans returns a page of the bans in force, in no particular order. A ban that stays
	// in force throughout is on some page, unless the store documents otherwise.
	ListBans(ctx context.Context, q BanQuery) (BanPage, error)
}

// BanQuery selects a page of bans.
type BanQuery struct {
	// From is where the page begins: the Next of the page before. Empty for the first page.
	From string
	// Most is about how many bans the page holds at most, 1 to 1,000. Default: 100.
	Most int
}

// BanPage is some of the bans in force.
type BanPage struct {
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
	// InRow is the number of the ban in its row, from 1, if bans escalate; otherwise zero.
	InRow int
	// ByHand says that the ban was made with BanKey.
	ByHand bool
}
