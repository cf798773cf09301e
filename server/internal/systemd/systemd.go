// Package systemd speaks with the service manager that started the process: it takes the sockets that systemd opened,
// and reports when the server is ready. In a process of another manager it does nothing.
package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Sockets returns the sockets that systemd passed, by the names in FileDescriptorName= of its socket units. Call it once.
func Sockets() (map[string]net.Listener, error) {
	files := activation.Files(true)
	passed := make(map[string]net.Listener, len(files))
	for _, f := range files {
		name := f.Name()
		ln, err := net.FileListener(f)
		_ = f.Close() // the listener has a copy
		if err != nil {
			return nil, fmt.Errorf("the socket %s, which systemd passed, does not accept connections: %w; use ListenStream= in its unit", name, err)
		}
		if passed[name] != nil {
			return nil, fmt.Errorf("systemd passed two sockets with the name %s; give each listener a socket unit of its own, with one ListenStream=", name)
		}
		passed[name] = ln
	}
	return passed, nil
}

// A Manager gets notifications about the server. Errors go to the log. A nil Manager does nothing.
type Manager struct{ Logger *slog.Logger }

// Ready reports that the server answers.
func (m *Manager) Ready() { m.notify(daemon.SdNotifyReady) }

// Stopping reports that the server drains.
func (m *Manager) Stopping() { m.notify(daemon.SdNotifyStopping) }

func (m *Manager) notify(state string) {
	if m == nil {
		return
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.Logger.Warn("systemd was not notified", "state", state, "error", err)
	}
}

// Watch reports twice in WatchdogSec= that the server is alive, until the context ends. The function alive returns as
// long as it is; what it returns does not matter, because a restart mends no store.
func (m *Manager) Watch(ctx context.Context, alive func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if m == nil || err != nil || every == 0 {
		return
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			alive()
			m.notify(daemon.SdNotifyWatchdog)
		}
	}
}
