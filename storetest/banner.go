package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// The following tests are for Banners. For other stores they check nothing.

// listed returns all bans, page by page.
func (s *subject) listed(b sluice.Banner, most int) []sluice.BannedKey {
	s.Helper()
	var all []sluice.BannedKey
	q := sluice.BanQuery{Most: most}
	for pages := 0; ; pages++ {
		page, err := b.ListBans(context.Background(), q)
		if err != nil {
			s.Fatalf("ListBans(%+v): %v", q, err)
		}
		all = append(all, page.Bans...)
		if q.From = page.Next; q.From == "" {
			return all
		}
		if pages > 10_000 {
			s.Fatalf("the list of bans does not end: %d so far", len(all))
		}
	}
}

// banByHand: a key can be banned by hand, and its ban can be lifted, however many units the key
// has left.
func banByHand(s *subject) {
	if _, ok := s.store.(sluice.Banner); !ok {
		return
	}
	ctx := context.Background()
	s.each(only(notCountingDenied), func(s *subject, c sample) {
		b := s.store.(sluice.Banner)
		l := c.limit()
		for _, terms := range []*sluice.Ban{
			{}, {After: 1, For: time.Second, Prolong: true}, {After: 2, For: time.Second, Escalate: []time.Duration{time.Minute}},
		} {
			r := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: terms}
			if err := b.BanKey(ctx, l, key, 10*time.Second); err != nil {
				s.Fatalf("BanKey: %v", err)
			}
			s.clock.Advance(4 * time.Second)
			for range 3 {
				d := s.decide(r)
				s.denied(d, sluice.ReasonBanned, "a key that is banned by hand")
				if d.RetryAfter != 6*time.Second {
					s.Errorf("banned for another %v, want 6s", d.RetryAfter)
				}
			}
			if out := s.batch(r, r); out[0].Reason != sluice.ReasonBanned || out[1].Reason != sluice.ReasonBanned {
				s.Errorf("in a batch: %+v", out)
			}
			other := r
			other.Key = sluice.StringKey("198.51.100.7")
			other.Peek = true
			s.allowed(s.decide(other), "another key")
			s.allowed(s.peek(l, key, 1), "a request that looks after no ban")
			s.clock.Advance(6*time.Second - us)
			s.denied(s.decide(r), sluice.ReasonBanned, "a microsecond before the end")
			s.clock.Advance(us)
			s.allowed(s.decide(r), "when the ban has ended")

			if err := b.BanKey(ctx, l, key, time.Hour); err != nil {
				s.Fatalf("BanKey: %v", err)
			}
			if err := b.BanKey(ctx, l, key, time.Minute); err != nil {
				s.Fatalf("BanKey: %v", err)
			}
			if d := s.decide(r); d.RetryAfter != time.Minute {
				s.Errorf("the second ban lasts for %v, want a minute: it replaces the first", d.RetryAfter)
			}
			for i, want := range []bool{true, false} {
				if found, err := b.LiftBan(ctx, l, key); err != nil || found != want {
					s.Errorf("lifting it, time %d: %t, %v", i+1, found, err)
				}
			}
			p := r
			p.Peek = true
			if d := s.decide(p); d.Reason == sluice.ReasonBanned {
				s.Errorf("when the ban was lifted: %+v", d)
			}
			s.reset(l, key)
		}
	})
}

// banLifted: a ban that denials have led to is lifted too, together with those denials.
func banLifted(s *subject) {
	b, ok := s.store.(sluice.Banner)
	if !ok {
		return
	}
	ctx := context.Background()
	l := limit("lift", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	r := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: &sluice.Ban{
		After: 2, For: time.Minute, Escalate: []time.Duration{2 * time.Minute}, Forget: time.Hour,
	}}
	for round := range 2 {
		s.decide(r)
		s.decide(r)
		s.decide(r)
		s.denied(s.decide(r), sluice.ReasonBanned, "after two denials")
		if all := s.listed(b, 0); len(all) != 1 || all[0].InRow != 1 || all[0].ByHand {
			s.Errorf("round %d: %+v", round, all)
		}
		if found, err := b.LiftBan(ctx, l, key); err != nil || !found {
			s.Errorf("lifting it: %t, %v", found, err)
		}
		s.denied(s.decide(r), sluice.ReasonLimited, "when it was lifted")
		if found, err := b.LiftBan(ctx, l, key); err != nil || found {
			s.Errorf("lifting what is none yet: %t, %v", found, err)
		}
		s.reset(l, key)
	}
}

// banRefused: a Banner refuses bans, limits and pages that are none.
func banRefused(s *subject) {
	b, ok := s.store.(sluice.Banner)
	if !ok {
		return
	}
	ctx := context.Background()
	l := limit("refused", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	var bad *sluice.RequestError
	for _, err := range []error{
		b.BanKey(ctx, nil, key, time.Hour), b.BanKey(ctx, l, key, 0), b.BanKey(ctx, l, key, time.Microsecond),
		b.BanKey(ctx, l, key, -time.Hour), b.BanKey(ctx, l, key, 1<<63-1),
	} {
		if !errors.As(err, &bad) {
			s.Errorf("a ban that is none: %v", err)
		}
	}
	if _, err := b.LiftBan(ctx, nil, key); !errors.As(err, &bad) {
		s.Errorf("lifting the ban of no limit: %v", err)
	}
	for _, q := range []sluice.BanQuery{{Most: -1}, {Most: 1001}, {From: "nowhere"}} {
		if _, err := b.ListBans(ctx, q); !errors.As(err, &bad) {
			s.Errorf("a page that is none, %+v: %v", q, err)
		}
	}
}

// banList: all bans in force are listed, in pages, with their limits and keys.
func banList(s *subject) {
	b, ok := s.store.(sluice.Banner)
	if !ok {
		return
	}
	ctx := context.Background()
	if all := s.listed(b, 0); len(all) != 0 {
		s.Fatalf("a new store has bans: %+v", all)
	}
	limits := []*sluice.Limit{
		limit("api", sluice.FixedWindow{Rate: sluice.PerHour(1)}),
		limit("odd }!{name:%", sluice.FixedWindow{Rate: sluice.PerHour(1)}),
	}
	odd := []sluice.Key{
		{},
		sluice.StringKey(""), sluice.NewKey("a", "b"), sluice.NewKey("a:b", "", "}{"), sluice.StringKey("{a}!b:c%25%"),
		sluice.StringKey("*?[x]\\"), sluice.StringKey("\x00\xff}2!api"), sluice.StringKey("}"), sluice.StringKey("%7D"), sluice.StringKey("%"),
	}
	type id struct {
		limit string
		key   sluice.Key
	}
	want := map[id]bool{}
	for i := range 150 {
		k := sluice.StringKey(fmt.Sprintf("key-%d", i))
		if i < len(odd) {
			k = odd[i]
		}
		l := limits[i%2]
		if i%3 == 0 {
			if err := b.BanKey(ctx, l, k, time.Hour); err != nil {
				s.Fatalf("BanKey: %v", err)
			}
		} else {
			r := sluice.Request{Limit: l, Key: k, Cost: 2, Ban: &sluice.Ban{After: 1, For: time.Hour}}
			s.denied(s.decide(r), sluice.ReasonNever, "what is too much")
		}
		want[id{l.Name(), k}] = i%3 == 0
		// A count of denials is not a ban, nor is a ban that has ended.
		r := sluice.Request{Limit: l, Key: sluice.NewKey(k.Text(), "counted"), Cost: 2, Ban: &sluice.Ban{After: 2, For: time.Hour}}
		s.decide(r)
		if err := b.BanKey(ctx, l, sluice.NewKey(k.Text(), "over"), time.Second); err != nil {
			s.Fatalf("BanKey: %v", err)
		}
	}
	s.clock.Advance(time.Minute)
	long := sluice.StringKey(strings.Repeat("x", 5000))
	if err := b.BanKey(ctx, limits[0], long, time.Hour); err != nil {
		s.Fatalf("BanKey: %v", err)
	}
	for _, most := range []int{0, 7, 1000} {
		got := map[id]bool{}
		digests := 0
		for _, x := range s.listed(b, most) {
			if x.Digest != "" {
				digests++
				continue
			}
			if x.Key == long {
				digests++ // a store may keep all texts
				continue
			}
			at := id{x.Limit, x.Key}
			byHand, there := want[at]
			if !there || byHand != x.ByHand || x.Left != 59*time.Minute || x.InRow != 0 {
				s.Errorf("listed %+v; there %t, by hand %t", x, there, byHand)
			}
			got[at] = true
		}
		if len(got) != len(want) || digests != 1 {
			s.Errorf("pages of %d: %d bans and %d long ones are listed, want %d and 1", most, len(got), digests, len(want))
		}
	}
}
