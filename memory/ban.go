package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// banState returns the state of a ban as of now, and the state in the table.
func (sp *stripe) banState(bp *location, terms *algo.Ban, now int64) (state, kept algo.State) {
	if e := sp.lookup(bp); e != nil {
		kept = e.state
	}
	return terms.Settled(kept, now), kept
}

// decideBan decides a request whose key may be banned now or by this request. bp is the location
// of its ban.
func (sp *stripe) decideBan(p *location, bp location, r *sluice.Request, req *algo.Request) sluice.Decision {
	terms := r.Ban.Terms()
	state, kept := sp.banState(&bp, &terms, req.Now)
	end := terms.Banned(state, req.Now)
	if end > 0 {
		state = terms.Attempted(state, req.Now)
		end = state.T
	}
	if state != kept && !r.Peek {
		sp.putBan(&bp, r.Limit, r.Key, state, req.Now)
	}
	if end > 0 {
		if req.Debit {
			sp.decideLimit(p, false, req) // it is charged all the same
			debited := *req
			debited.Debit = false
			req = &debited
		}
		d := sp.decideLimit(p, true, req)
		return translate.Banned(end-req.Now, &d)
	}
	d := sp.decideLimit(p, r.Peek, req)
	if state, counts := translate.Denied(&terms, state, &d, req.Now); counts && !r.Peek {
		sp.putBan(&bp, r.Limit, r.Key, state, req.Now)
	}
	return d
}

// putBan stores the state of a ban. If the store has no room, the request stays denied, and putBan
// does not count the denial.
func (sp *stripe) putBan(bp *location, l *sluice.Limit, k sluice.Key, state algo.State, now int64) {
	e := sp.lookup(bp)
	if e == nil {
		if e = sp.add(bp, now, false); e == nil {
			return
		}
	}
	e.state = state
	if (&algo.Ban{}).Banned(state, now) > 0 {
		sp.keepText(bp.banID(), l.Name(), k)
	}
}

// Entries hold hashes of keys. To list banned keys, each stripe keeps their texts, in a share of
// the store's bytes. A ban is enforced even if there is no room for the text of its key.

var _ sluice.Banner = (*Store)(nil)

const (
	// The texts may take a share of 1/bannedShare of the store's bytes.
	bannedShare = 16
	// bannedBytes is about how many bytes a text takes beside its own length, in a map at its
	// lowest load.
	bannedBytes = 320
	// longestBanned is the longest text of a key that is kept. A digest replaces longer texts.
	longestBanned = 256
)

// banID identifies the entry of a ban in its stripe.
type banID struct{ key, tag uint64 }

func (p *location) banID() banID { return banID{p.key, p.tag} }

func (a banID) compare(b banID) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.tag, b.tag))
}

// bannedKey is what a list of bans shows about a key.
type bannedKey struct {
	limit  string
	key    sluice.Key
	digest string
}

func (b *bannedKey) bytes() int64 { return int64(bannedBytes + len(b.key.Text()) + len(b.digest)) }

// keepText keeps the text of a banned key.
func (sp *stripe) keepText(id banID, limit string, k sluice.Key) {
	if _, ok := sp.banned[id]; ok {
		return
	}
	b := bannedKey{limit: limit}
	if text := k.Text(); len(text) > longestBanned {
		sum := sha256.Sum256([]byte(text))
		b.digest = "#" + base64.RawURLEncoding.EncodeToString(sum[:])
	} else {
		// Without the copy, a substring would keep the whole text of a request in memory.
		b.key = sluice.EncodedKey(strings.Clone(text), k.Len())
	}
	sp.list(id, b)
}

// list adds the text of a banned key to the list of bans, if there is room for it.
func (sp *stripe) list(id banID, b bannedKey) {
	n := b.bytes()
	if s := sp.store; s.banned.Add(n) > s.maxBytes/bannedShare || !s.grow(n) {
		s.banned.Add(-n)
		sp.unlisted++
		return
	}
	if sp.banned == nil {
		sp.banned = make(map[banID]bannedKey)
	}
	sp.banned[id] = b
}

// dropText removes the text of a ban whose entry is removed.
func (sp *stripe) dropText(id banID) {
	b, ok := sp.banned[id]
	if !ok {
		return
	}
	if delete(sp.banned, id); len(sp.banned) == 0 {
		sp.banned = nil // a map never shrinks
	}
	sp.store.banned.Add(-b.bytes())
	sp.store.bytes.Add(-b.bytes())
}

// BanKey bans a key by hand. See sluice.Banner. It fails if the store has no room for the ban.
func (s *Store) BanKey(_ context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	if err := translate.CheckBan(l, d); err != nil {
		return err
	}
	p, now, err := s.lock(l, k)
	if err != nil {
		return err
	}
	defer p.stripe.unlock()
	b := p.ban()
	if p.stripe.lookup(&b) == nil && p.stripe.add(&b, now, true) == nil {
		return errors.New("memory: there is no room for the ban; raise Options.MaxBytes")
	}
	p.stripe.putBan(&b, l, k, algo.BannedByHand(now, int64(d/time.Microsecond)), now)
	return nil
}

// LiftBan ends the ban of a key. See sluice.Banner.
// Errors are as in sluice.Store, and sluice.ErrClosed.
func (s *Store) LiftBan(_ context.Context, l *sluice.Limit, k sluice.Key) (bool, error) {
	if l == nil {
		return false, &sluice.RequestError{Problem: "has no limit"}
	}
	p, now, err := s.lock(l, k)
	if err != nil {
		return false, err
	}
	defer p.stripe.unlock()
	b := p.ban()
	e := p.stripe.lookup(&b)
	if e == nil {
		return false, nil
	}
	found := (&algo.Ban{}).Banned(e.state, now) > 0
	p.stripe.remove(&b)
	return found, nil
}

// ListBans returns a page of the bans in force. See sluice.Banner. A ban is not listed if there
// was no room for its text: see Stats.Unlisted.
// Errors are as in sluice.Store, and sluice.ErrClosed.
func (s *Store) ListBans(_ context.Context, q sluice.BanQuery) (sluice.BanPage, error) {
	var page sluice.BanPage
	q, err := translate.CompleteBanQuery(q)
	if err != nil {
		return page, err
	}
	number, after := 0, banID{}
	if q.From != "" {
		if _, err := fmt.Sscanf(q.From, "%x.%x.%x", &number, &after.key, &after.tag); err != nil || number < 0 || number >= len(s.stripes) {
			return page, &sluice.RequestError{Problem: "for bans: From is not the Next of a page; give one, or leave it empty"}
		}
	}
	for ; number < len(s.stripes); number++ {
		listed, err := s.stripes[number].listBans(after)
		if err != nil {
			return page, err
		}
		slices.SortFunc(listed, func(a, b listedBan) int { return a.id.compare(b.id) })
		for i := range listed {
			page.Bans = append(page.Bans, listed[i].ban)
			if len(page.Bans) == q.Most {
				page.Next = fmt.Sprintf("%x.%x.%x", number, listed[i].id.key, listed[i].id.tag)
				return page, nil
			}
		}
		after = banID{}
	}
	return page, nil
}

// listedBan is a ban with its position in the order of pages.
type listedBan struct {
	id  banID
	ban sluice.BannedKey
}

// listBans returns the bans in force of a stripe that come after a position.
func (sp *stripe) listBans(after banID) ([]listedBan, error) {
	sp.lock()
	defer sp.unlock()
	if sp.closed {
		return nil, sluice.ErrClosed
	}
	now := sp.store.now()
	var listed []listedBan
	for id, b := range sp.banned {
		if id.compare(after) <= 0 {
			continue
		}
		e := sp.lookup(&location{key: id.key, tag: id.tag})
		ban := sluice.BannedKey{Limit: b.limit, Key: b.key, Digest: b.digest}
		if e == nil || !translate.InForce(&ban, e.state, now) {
			continue
		}
		listed = append(listed, listedBan{id, ban})
	}
	return listed, nil
}
