package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

var _ sluice.Banner = (*Store)(nil)

// BanKey bans a key by hand, for all programs that share the prefix. See sluice.Banner.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	if err := translate.CheckBan(l, d); err != nil {
		return err
	}
	_, err := s.ban(ctx, l, k, int64(d/time.Microsecond))
	return err
}

// LiftBan ends the ban of a key. See sluice.Banner.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) LiftBan(ctx context.Context, l *sluice.Limit, k sluice.Key) (bool, error) {
	if l == nil {
		return false, &sluice.RequestError{Problem: "has no limit"}
	}
	return s.ban(ctx, l, k, 0)
}

// ban bans a key for so many microseconds, or lifts its ban. It reports whether there was one.
func (s *Store) ban(ctx context.Context, l *sluice.Limit, k sluice.Key, micros int64) (bool, error) {
	keys := []string{s.banKey(s.limits.get(l), k)}
	reply, err := s.run(ctx, banScript, keys, []string{string(appendInt(nil, micros))})
	if err != nil {
		return false, err
	}
	return readFound(reply)
}

const (
	// scanCount is how many keys of the server one SCAN looks at, at least.
	scanCount = 500
	// pageTime is how long a page looks for bans among other keys.
	pageTime = 10 * time.Millisecond
)

// ListBans returns a page of the bans in force. See sluice.Banner.
//
// It goes through all keys of the server with SCAN. A page ends after ten milliseconds, or
// when it has at least as many bans as the query wants. A ban may be on two pages, and on
// none while a cluster moves slots. Keys that are kept as a digest are listed as a digest.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) ListBans(ctx context.Context, q sluice.BanQuery) (sluice.BanPage, error) {
	var page sluice.BanPage
	q, err := translate.CompleteBanQuery(q)
	if err != nil {
		return page, err
	}
	if !isCursor(q.From) {
		return page, &sluice.RequestError{Problem: "for bans: From is not the Next of a page; give one, or leave it empty"}
	}
	if s.closed.Load() {
		return page, sluice.ErrClosed
	}
	match := globEscaper.Replace(s.names.prefix) + "{*}*!*"
	page.Next = q.From
	for began := time.Now(); ; {
		keys, next, err := s.scan(ctx, page.Next, match, max(scanCount, q.Most))
		if err == nil {
			page.Bans, err = s.appendBans(ctx, page.Bans, keys)
		}
		if err != nil {
			return sluice.BanPage{}, listError(err)
		}
		page.Next = next
		if next == "" || len(page.Bans) >= q.Most || time.Since(began) > pageTime {
			return page, nil
		}
	}
}

// globEscaper escapes what SCAN would take for a pattern.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// listError adds to an error that the list of bans failed.
func listError(err error) error {
	if errors.Is(err, sluice.ErrClosed) || strings.HasPrefix(err.Error(), "redisstore: ") {
		return err
	}
	return fmt.Errorf("redisstore: the list of bans: %w", err)
}

// scan runs SCAN once, from a cursor, and returns the next cursor. The first cursor is empty,
// and so is the cursor after the end. scan goes through one master after the other: a cursor
// is a slot of the master, and the master's cursor.
func (s *Store) scan(ctx context.Context, from, match string, count int) (keys []string, next string, err error) {
	slot, cursor, inside := readCursor(from)
	if !inside {
		if slot, err = s.masterAfter(ctx, -1); err != nil || slot < 0 {
			return nil, "", err
		}
	}
	keys, cursor, err = s.client.Scan(ctx, slotKey(slot), cursor, match, count)
	if err != nil {
		return nil, "", err
	}
	if cursor == 0 {
		if slot, err = s.masterAfter(ctx, slot); err != nil || slot < 0 {
			return keys, "", err
		}
	}
	return keys, fmt.Sprintf("%d/%d", slot, cursor), nil
}

// masterAfter returns the first slot of the master that follows a slot, or -1.
func (s *Store) masterAfter(ctx context.Context, slot int) (int, error) {
	masters, err := s.client.Masters(ctx)
	next := -1
	for _, m := range masters {
		if m.Slot > slot && (next < 0 || m.Slot < next) {
			next = m.Slot
		}
	}
	return next, err
}

// readCursor reads a cursor of scan.
func readCursor(text string) (slot int, cursor uint64, ok bool) {
	first, second, ok := strings.Cut(text, "/")
	if !ok {
		return 0, 0, false
	}
	slot, err := strconv.Atoi(first)
	if err != nil || slot < 0 || slot >= slots {
		return 0, 0, false
	}
	cursor, err = strconv.ParseUint(second, 10, 64)
	return slot, cursor, err == nil
}

// isCursor reports whether scan can begin at a cursor.
func isCursor(text string) bool {
	_, _, ok := readCursor(text)
	return ok || text == ""
}

// appendBans appends the bans in force among some keys of the server.
func (s *Store) appendBans(ctx context.Context, bans []sluice.BannedKey, keys []string) ([]sluice.BannedKey, error) {
	type found struct {
		keys []string
		bans []sluice.BannedKey
	}
	var slots []uint16 // in the order in which they were found
	bySlot := map[uint16]*found{}
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		b, ok := s.names.parseBan(key)
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		slot := uint16(0)
		if s.cluster {
			slot = slotOf(key)
		}
		if bySlot[slot] == nil {
			bySlot[slot] = &found{}
			slots = append(slots, slot)
		}
		f := bySlot[slot]
		f.keys, f.bans = append(f.keys, key), append(f.bans, b)
	}
	for _, slot := range slots {
		f := bySlot[slot]
		for len(f.keys) > 0 {
			n := min(len(f.keys), maxBatch)
			var err error
			if bans, err = s.readBans(ctx, bans, f.keys[:n], f.bans[:n]); err != nil {
				return nil, err
			}
			f.keys, f.bans = f.keys[n:], f.bans[n:]
		}
	}
	return bans, nil
}

// readBans reads the bans at some keys of one slot, and appends the bans in force. The
// argument of has these bans, without the fields that come from their states.
func (s *Store) readBans(ctx context.Context, bans []sluice.BannedKey, keys []string, of []sluice.BannedKey) ([]sluice.BannedKey, error) {
	reply, err := s.run(ctx, bansScript, keys, nil)
	if err != nil {
		return nil, err
	}
	in := reader{rest: reply}
	now := in.count()
	if in.list() != len(keys) {
		in.fail()
	}
	for i := range of {
		raw := in.text()
		if in.err != nil {
			return nil, in.err
		}
		kept := reader{rest: raw}
		state := kept.ban()
		b := of[i]
		if raw == "" || kept.err != nil || !translate.InForce(&b, state, now) {
			continue
		}
		bans = append(bans, b)
	}
	return bans, nil
}

// withBan returns the decision about a request, from the decision d of its limit and the state
// of its ban.
func withBan(terms *algo.Ban, state algo.State, d sluice.Decision, now int64) sluice.Decision {
	if terms.Banned(state, now) > 0 {
		return translate.Banned(terms.Attempted(state, now).T-now, &d)
	}
	translate.Denied(terms, state, &d, now)
	return d
}

// appendTerms appends the terms of a ban as batch.lua reads them.
func appendTerms(b []byte, t *algo.Ban) []byte {
	b = appendList(b, 5+len(t.Escalate))
	prolong := int64(0)
	if t.Prolong {
		prolong = 1
	}
	for _, n := range [...]int64{t.After, t.Within, t.Forget, prolong, t.For} {
		b = appendInt(b, n)
	}
	for _, d := range t.Escalate {
		b = appendInt(b, int64(d/time.Microsecond))
	}
	return b
}

// ban reads the state of a ban.
func (r *reader) ban() algo.State {
	till := r.count()
	c := algo.BanCount{Count: r.count(), Level: r.count(), Forget: r.count()}
	if c.Count > algo.MaxBanDenials || c.Level > algo.BanByHand || c.Forget > algo.MaxBanForget {
		r.fail()
		return algo.State{}
	}
	return algo.State{T: till, V: c.Pack()}
}
