package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// slots is how many hash slots a cluster has.
const slots = 16384

// slotOf returns the slot of a key: the CRC-16 (XMODEM) of its hash tag, modulo 16,384. The
// hash tag is the text between the first opening brace and the next closing brace. If there
// is no such text, the whole key is the hash tag. See the Redis cluster specification.
func slotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1:][:n]
		}
	}
	return crcOf(key) % slots
}

// crcOf returns the CRC-16 (XMODEM) of a text.
func crcOf[T string | []byte](text T) (crc uint16) {
	for i := range len(text) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^text[i]]
	}
	return crc
}

// crcTable holds the remainders of all bytes for the polynomial x¹⁶ + x¹² + x⁵ + 1.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// slotKey returns a key in a slot. Clients find the node of a slot by a key.
func slotKey(slot int) string { return slotKeys()[slot%slots] }

// slotKeys returns a key in each slot.
var slotKeys = sync.OnceValue(func() *[slots]string {
	var keys [slots]string
	for i, left := 0, slots; left > 0; i++ {
		key := strconv.Itoa(i)
		if at := &keys[slotOf(key)]; *at == "" {
			*at = key
			left--
		}
	}
	return &keys
})

// part holds the requests of a batch whose keys are in one slot.
type part struct {
	indexes []int // in the batch
	rs      []sluice.Request
	batch   *batch
	err     error
}

// decideSlots decides a batch whose keys may be in several slots of a cluster.
func (s *Store) decideSlots(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	bySlot := make(map[uint16][]int)
	for i := range rs {
		slot := s.names.slot(rs[i].Key)
		bySlot[slot] = append(bySlot[slot], i)
	}
	if len(bySlot) == 1 {
		return s.decideSlot(ctx, rs, out)
	}
	parts := make([]part, 0, len(bySlot))
	for _, indexes := range bySlot {
		p := part{indexes: indexes, rs: make([]sluice.Request, len(indexes))}
		for j, i := range indexes {
			p.rs[j] = rs[i]
		}
		parts = append(parts, p)
	}
	inParallel(parts, func(p *part) { p.batch, p.err = s.runBatch(ctx, p.rs) })
	allowed := true
	var failed []error
	var silent []int // the requests of the failed parts
	for i := range parts {
		if parts[i].err != nil {
			failed = append(failed, parts[i].err)
			silent = append(silent, parts[i].indexes...)
		} else {
			allowed = allowed && parts[i].batch.all
		}
	}
	given := failed == nil && allowed || s.giveBack(ctx, parts)
	if failed != nil {
		err := errors.Join(failed...)
		if !given || slices.ContainsFunc(parts, func(p part) bool { return p.err == nil && p.batch.lasts() }) {
			err = unknown(err)
		}
		err = &driver.ShardError{Failed: silent, Err: err}
		if denied := denials(parts); len(denied) > 0 {
			err = &driver.DenialError{Denied: denied, Err: err}
		}
		return err
	}
	for i := range parts {
		p := &parts[i]
		decisions := make([]sluice.Decision, len(p.rs))
		if err := p.batch.decisions(decisions, allowed); err != nil {
			return err
		}
		for j, i := range p.indexes {
			out[i] = decisions[j]
		}
	}
	return nil
}

// denials returns the denials of the parts that did not fail, by their indexes in the batch.
func denials(parts []part) map[int]sluice.Decision {
	denied := map[int]sluice.Decision{}
	for _, p := range parts {
		decisions := make([]sluice.Decision, len(p.rs))
		if p.err != nil || p.batch.all || p.batch.decisions(decisions, false) != nil {
			continue
		}
		for j, i := range p.indexes {
			if !decisions[j].Allowed && !p.rs[j].Shadow {
				denied[i] = decisions[j]
			}
		}
	}
	return denied
}

// inParallel runs f for all parts at once.
func inParallel(parts []part, f func(p *part)) {
	var all sync.WaitGroup
	for i := range parts[1:] {
		all.Go(func() { f(&parts[i+1]) })
	}
	f(&parts[0])
	all.Wait()
}

// Bounds of what is given back after the context of a batch has ended.
const (
	maxLate  = 16          // batches at once
	lateTime = time.Second // for each batch, from the end of its context
)

// giveBack undoes the parts that were charged, and reports whether all of them are undone.
//
// The context may end before that, for example because another slot did not answer. Then
// giveBack returns, and undoing goes on for a bounded time and a bounded number of batches.
// Beyond that number the charges stay: the limits admit too little, never too much.
func (s *Store) giveBack(ctx context.Context, parts []part) bool {
	if !slices.ContainsFunc(parts, func(p part) bool { return p.err == nil && p.batch.all }) {
		return true
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan bool, 1)
	go func() {
		defer cancel()
		done <- s.undoParts(own, parts)
	}()
	select {
	case given := <-done:
		return given
	case <-ctx.Done():
	}
	select {
	case s.late <- struct{}{}:
		late := time.AfterFunc(lateTime, cancel)
		go func() {
			<-done
			late.Stop()
			<-s.late
		}()
	default:
		cancel()
	}
	return false
}

// undoParts undoes the parts that were charged.
func (s *Store) undoParts(ctx context.Context, parts []part) bool {
	var kept atomic.Bool
	inParallel(parts, func(p *part) {
		if p.err == nil && p.batch.all && !s.undo(ctx, p.batch) {
			kept.Store(true)
		}
	})
	return !kept.Load()
}
