package sampled

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

// TestPanicsAreErrors logs a panic of the program with its stack.
func TestPanicsAreErrors(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) { // within one second, however busy the machine is
		l := HTTP(slog.New(slog.NewTextHandler(&out, nil)))
		for range 15 {
			l.Printf("http: panic serving 192.0.2.1:5: %q\ngoroutine 7 [running]:\n%s", "hunter2", strings.Repeat("x", 1<<20))
		}
		l.Print("http: TLS handshake error from 192.0.2.1:5: EOF") // is for debugging
	})
	text := out.String()
	if strings.Count(text, "level=ERROR") != PerSecond || !strings.Contains(text, "goroutine 7") || strings.Contains(text, "hunter2") || len(text) > 64<<10 {
		t.Errorf("%d bytes: %.500s", len(text), text)
	}
}
