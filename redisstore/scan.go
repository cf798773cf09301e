package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// scan runs SCAN once, on the node and with the cursor that from tells, which is empty to begin,
// and returns where to go on, which is empty at the end. It goes through one master after the other.
func (s *Store) scan(ctx context.Context, from, match string, count int) (keys []string, next string, err error) {
	slot, cursor, inside := readScan(from)
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

// masterAfter returns the first slot of the next master after that of a slot, -1 for none.
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

// readScan reads where a scan goes on: the slot of the node, and its cursor.
func readScan(text string) (slot int, cursor uint64, ok bool) {
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

// isScanCursor reports whether a scan can begin there.
func isScanCursor(text string) bool {
	_, _, ok := readScan(text)
	return ok || text == ""
}

// slotKey returns a key that is in a slot of a cluster, by which a client can find the node.
func slotKey(slot int) string { return slotKeys()[slot%slots] }

// slotKeys are keys of all slots.
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
