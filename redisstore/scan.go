package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ScanNode runs SCAN once, on the node of a cluster that a key belongs to.
type ScanNode func(ctx context.Context, key string, cursor uint64) (keys []string, next uint64, err error)

// ScanCluster is a Client's Scan for a cluster: it goes through the masters one after the
// other. Masters returns the first slot of each; it is asked when one ends and another begins.
func ScanCluster(ctx context.Context, from string, masters func(context.Context) ([]int, error), scan ScanNode) (keys []string, next string, err error) {
	slot, cursor, inside := readScan(from)
	if !inside {
		if slot, err = firstSlot(ctx, -1, masters); err != nil || slot < 0 {
			return nil, "", err
		}
	}
	keys, cursor, err = scan(ctx, SlotKey(slot), cursor)
	if err != nil {
		return nil, "", err
	}
	if cursor == 0 {
		if slot, err = firstSlot(ctx, slot, masters); err != nil || slot < 0 {
			return keys, "", err
		}
	}
	return keys, fmt.Sprintf("%d/%d", slot, cursor), nil
}

// ScanServer is a Client's Scan for a single server.
func ScanServer(ctx context.Context, from string, scan ScanNode) (keys []string, next string, err error) {
	_, cursor, _ := readScan(from)
	keys, cursor, err = scan(ctx, "", cursor)
	if err != nil || cursor == 0 {
		return keys, "", err
	}
	return keys, fmt.Sprintf("0/%d", cursor), nil
}

// firstSlot returns the first slot of the next master after that of a slot, -1 for none.
func firstSlot(ctx context.Context, after int, masters func(context.Context) ([]int, error)) (int, error) {
	all, err := masters(ctx)
	if err != nil {
		return -1, err
	}
	slices.SortFunc(all, cmp.Compare[int])
	for _, slot := range all {
		if slot > after {
			return slot, nil
		}
	}
	return -1, nil
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

// SlotKey returns a key that is in a slot of a cluster, by which a client can find the node.
func SlotKey(slot int) string { return slotKeys()[slot%slots] }

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
