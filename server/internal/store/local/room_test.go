package local

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/memory"
)

// TestRoomAgain: the log repeats once a minute that there is no room, and says when there is room again.
func TestRoomAgain(t *testing.T) {
	t.Parallel()
	store, err := memory.New(memory.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var log bytes.Buffer
	own := NewRoom(store, "max", "they share", slog.New(slog.NewTextHandler(&log, nil)))
	lines := func() int { return strings.Count(log.String(), "\n") }
	own.look(now)
	if own.Status() != "" || lines() != 0 {
		t.Errorf("with room: %q, %s", own.Status(), &log)
	}
	for second := range 130 { // each second, more decisions than were known
		own.known--
		own.look(now.Add(time.Duration(second) * time.Second))
	}
	if own.Status() == "" || lines() != 3 {
		t.Errorf("without room for 130 s: %q, %s", own.Status(), &log)
	}
	own.look(now.Add(159 * time.Second))
	if own.Status() != "" || lines() != 4 || !strings.Contains(log.String(), "room for new keys again") {
		t.Errorf("30 s later: %q, %s", own.Status(), &log)
	}
}
