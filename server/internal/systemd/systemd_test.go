package systemd

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// systemd gets the states that sd_notify(3) describes, and signs of life twice in WatchdogSec=.
func TestTheManagerIsNotified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	m := &Manager{Logger: slog.New(slog.DiscardHandler)}
	told := func(want string) {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 100)
		n, err := socket.Read(text)
		if err != nil || string(text[:n]) != want {
			t.Fatalf("systemd got %q, %v; want %q", text[:n], err, want)
		}
	}
	m.Ready()
	told("READY=1")
	alive := make(chan struct{}, 100)
	go m.Watch(t.Context(), func() { alive <- struct{}{} })
	<-alive
	told("WATCHDOG=1")
	<-alive
	told("WATCHDOG=1")
}

// Without systemd nothing happens.
func TestWithoutAManagerNothingHappens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	t.Setenv("LISTEN_FDS", "")
	var nobody *Manager
	nobody.Ready()
	nobody.Watch(t.Context(), func() { t.Error("a watchdog runs") })
	m := &Manager{Logger: slog.New(slog.DiscardHandler)}
	m.Stopping()
	m.Watch(t.Context(), func() { t.Error("a watchdog runs") })
	if passed, err := Sockets(); len(passed) > 0 || err != nil {
		t.Errorf("sockets are %v, %v; want none", passed, err)
	}
}
