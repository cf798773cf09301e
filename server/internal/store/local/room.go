package local

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice/memory"
)

// Room reports whether a store in memory has room for new keys. A full store still decides about all keys, so the server
// stays ready.
type Room struct {
	setting string // the bound of the store
	what    string // happens to new keys
	store   *memory.Store
	logger  *slog.Logger

	mu     sync.Mutex
	known  int64     // decisions without room
	last   time.Time // when the latest one was seen
	logged time.Time
}

const (
	roomLooks = time.Second
	// A store has room again when no new key has lacked room for a while. While it is full, the log repeats it.
	roomAgain  = 30 * time.Second
	roomRepeat = time.Minute
)

// NewRoom returns the room of a store. The argument setting is the name of its bound, and what happens to new keys beyond.
func NewRoom(store *memory.Store, setting, what string, logger *slog.Logger) *Room {
	return &Room{setting: setting, what: what, store: store, logger: logger}
}

// Watch looks at the store until the context ends.
func (r *Room) Watch(ctx context.Context) {
	tick := time.NewTicker(roomLooks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.look(now)
		}
	}
}

// look compares the store with the last look.
func (r *Room) look(now time.Time) {
	st := r.store.Stats()
	r.mu.Lock()
	defer r.mu.Unlock()
	more := st.Overflow - r.known
	r.known = st.Overflow
	switch full := !r.last.IsZero(); {
	case more > 0:
		r.last = now
		if now.Sub(r.logged) >= roomRepeat {
			r.logged = now
			r.logger.Warn("there is no room for new keys: "+r.what+". Give "+r.setting+" more, or find out who invents keys",
				"states", st.Keys, "bytes", st.Bytes, "decisions_without_room", st.Overflow)
		}
	case full && now.Sub(r.last) >= roomAgain:
		r.last, r.logged = time.Time{}, time.Time{}
		r.logger.Info("there is room for new keys again", "setting", r.setting, "states", st.Keys, "bytes", st.Bytes)
	}
}

// Status is a line for the readiness probe, empty while there is room.
func (r *Room) Status() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.IsZero() {
		return ""
	}
	return fmt.Sprintf("warning: no room for new keys within %s: %s", r.setting, r.what)
}
