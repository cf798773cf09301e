package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/translate"
)

var _ sluice.Banner = (*Store)(nil)

const (
	// scanCount is how many keys of the server one SCAN looks at, at least.
	scanCount = 500
	// scanPatience is how long a page looks for bans among other keys.
	scanPatience = 10 * time.Millisecond
)

// BanKey bans a key by hand, for all programs that share the prefix. See sluice.Banner.
func (s *Store) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	if err := sluice.CheckBan(l, d); err != nil {
		return err
	}
	_, err := s.ban(ctx, l, k, int64(d/time.Microsecond))
	return err
}

// LiftBan ends the ban of a key. See sluice.Banner.
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

// ListBans returns a page of the bans in force. See sluice.Banner. It goes through all
// keys of the server with SCAN, some at a time: a page looks at them for ten
// milliseconds or until it has as many bans as asked for, and can have some more. A ban may be on two
// pages, and while a cluster moves slots it may be on none. Keys that are kept as a digest
// are listed as that.
func (s *Store) ListBans(ctx context.Context, q sluice.BanQuery) (sluice.BanPage, error) {
	var page sluice.BanPage
	q, err := q.Complete()
	if err != nil {
		return page, err
	}
	if !isScanCursor(q.From) {
		return page, &sluice.RequestError{Problem: "for bans: there is no page there; give Next of an earlier one"}
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
			return sluice.BanPage{}, readFailure(err)
		}
		page.Next = next
		if next == "" || len(page.Bans) >= q.Most || time.Since(began) > scanPatience {
			return page, nil
		}
	}
}

// globEscaper lets SCAN take a text for itself.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// readFailure names the place of an error that has changed nothing.
func readFailure(err error) error {
	if errors.Is(err, sluice.ErrClosed) || strings.HasPrefix(err.Error(), "redisstore: ") {
		return err
	}
	return fmt.Errorf("redisstore: the list of bans: %w", err)
}

// appendBans appends those of some keys of the server that are bans in force.
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

// readBans completes bans by what is kept at their keys, which are in one slot, and appends those
// that are in force.
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
