package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// errNoBanner reports a store that does not implement sluice.Banner.
var errNoBanner = fmt.Errorf("policy: the store does not list bans, nor take them by hand: %w", errors.ErrUnsupported)

// byHand are the terms of a ban that no denial leads to.
var byHand = &sluice.Ban{}

// unearned returns the terms for requests that lack a part of the key. Their denials lead to no ban,
// because strangers share the key.
func unearned(b *sluice.Ban) *sluice.Ban {
	if b == nil {
		return nil
	}
	return byHand
}

// checkShared reports a ban on a key that all clients share, unless BanShared is set. Any client could ban
// all others.
func (c *compiler) checkShared(r *Rule) {
	shared := !slices.ContainsFunc(r.Key, func(p Part) bool { return p.OfClient() })
	own := slices.ContainsFunc(r.Key, func(p Part) bool { return p.OfClient() && !p.Chosen() })
	earned := r.Ban != nil && r.Ban.After > 0
	switch {
	case r.BanShared && !earned:
		c.report("BanShared", "", fault{"is set, and no denial leads to a ban", "leave it out"})
	case r.BanShared && own:
		c.report("BanShared", "", fault{"is set, and a part of the key distinguishes clients", "leave it out"})
	}
	if !earned || !shared || r.BanShared || len(r.Key) == 0 {
		return
	}
	c.report("Ban", "", fault{
		"bans all clients at once, because no part of the key distinguishes them",
		"add a part such as client_ip to the key, or say that the ban is shared",
	})
}

// OfClient reports whether a part distinguishes clients. The other parts are the same for all clients that
// request the same thing.
func (p *Part) OfClient() bool {
	switch p.Source {
	case FromConstant, FromPath, FromParam, FromRoute, FromMethod, FromHost:
		return false
	}
	return true
}

// Chosen reports whether any client can send the value of another one, because its name does not say that it is a
// secret: a parameter of the query, or a header without credentials. A ban on such parts only hits a client or a
// resource that somebody else has named. Cookies, claims and the caller's own values are not chosen.
func (p Part) Chosen() bool {
	if p.Source != FromQuery && p.Source != FromHeader {
		return false
	}
	name := strings.ToLower(p.Name)
	return !slices.ContainsFunc(secretNames[:], func(word string) bool { return strings.Contains(name, word) })
}

// secretNames are words in the names of values that are secrets of their clients.
var secretNames = [...]string{"auth", "key", "token", "secret", "session", "cookie", "signature", "password", "jwt", "sid", "credential"}

// Ban bans a key of a rule by hand: all its requests are refused for d. The rule must have a Ban, even
// the zero Ban, so that its requests look for bans. The key is given as in RuleRequest. The error is a
// *RuleRequestError or the store's error. It wraps errors.ErrUnsupported if the store does not
// implement sluice.Banner.
func (p *Policy) Ban(ctx context.Context, store sluice.Store, d time.Duration, rule string, key ...string) error {
	r, k, err := p.bannable(rule, key)
	if err != nil {
		return err
	}
	b, ok := sluice.As[sluice.Banner](store)
	if !ok {
		return errNoBanner
	}
	// All limits must let a request pass, so a ban by one limit is enough.
	return b.BanKey(ctx, r.Limits[0], k, d)
}

// LiftBan ends the bans of a key for all limits of a rule, and forgets the denials that led to them. It
// reports whether a ban was in force. The key and the error are as in Ban.
func (p *Policy) LiftBan(ctx context.Context, store sluice.Store, rule string, key ...string) (bool, error) {
	r, k, err := p.bannable(rule, key)
	if err != nil {
		return false, err
	}
	b, ok := sluice.As[sluice.Banner](store)
	if !ok {
		return false, errNoBanner
	}
	var errs []error
	found := false
	for _, l := range r.Limits {
		here, err := b.LiftBan(ctx, l, k)
		found = found || here
		errs = append(errs, err)
	}
	return found, errors.Join(errs...)
}

// bannable returns a rule whose keys can be banned, and the key.
func (p *Policy) bannable(name string, key []string) (r *rule, k sluice.Key, err error) {
	s := newScratch()
	defer s.free()
	if r, err = p.read(s, name, key); err != nil {
		return nil, k, err
	}
	if k, err = s.keyOf(r); err != nil {
		return nil, k, err
	}
	fail := func(problem string) (*rule, sluice.Key, error) {
		return nil, k, &RuleRequestError{Rule: name, Problem: problem}
	}
	switch {
	case r.Ban == nil:
		return fail("looks after no bans; give it a ban in the policy, {by_hand: true} if denials are to ban nobody")
	case len(r.Limits) == 0:
		return fail("has no limit, and so no bans; put the ban on a rule with one, or the key on the rule's list to deny")
	}
	return r, k, nil
}

// BannedKey is a ban in force.
type BannedKey struct {
	sluice.BannedKey
	// Rule is the name of the key's rule, even if the policy no longer has that rule.
	Rule string
	// Values are the values of the key as in RuleRequest. They are nil if the store does not keep them.
	Values []string
}

// ListBans returns a page of the bans in force, and where the next page begins: see sluice.Banner. The
// error wraps errors.ErrUnsupported if the store does not implement sluice.Banner.
func (p *Policy) ListBans(ctx context.Context, store sluice.Store, q sluice.BanQuery) (bans []BannedKey, next string, err error) {
	b, ok := sluice.As[sluice.Banner](store)
	if !ok {
		return nil, "", errNoBanner
	}
	page, err := b.ListBans(ctx, q)
	if err != nil {
		return nil, "", err
	}
	bans = make([]BannedKey, len(page.Bans))
	for i := range page.Bans {
		x := &bans[i]
		x.BannedKey = page.Bans[i]
		x.Rule, _, _ = strings.Cut(x.Limit, "/") // see compiler.nameLimits
		if x.Digest == "" {
			x.Values = p.KeyValues(x.Rule, x.Key)
		}
	}
	return bans, page.Next, nil
}

// KeyValues returns the values of a key of a rule, as in RuleRequest.Key. A missing part has an empty
// value. If the policy has no such rule, or the key does not fit it, KeyValues returns all parts of the
// key.
func (p *Policy) KeyValues(rule string, k sluice.Key) []string {
	parts := k.Parts()
	r := p.byName[rule]
	// A key with missing parts has one part more; see makeKey.
	if r == nil || len(parts) != len(r.parts) && len(parts) != len(r.parts)+1 {
		return parts
	}
	values := []string{}
	for i := range r.parts {
		if r.parts[i].Source != FromConstant {
			values = append(values, parts[i])
		}
	}
	return values
}
