package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// disk mounts a small file system until the test ends. It needs root.
func (m *machine) disk(options string) (path string) {
	m.t.Helper()
	path = m.path("disk")
	if err := os.Mkdir(path, 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, options); err != nil {
		m.t.Fatalf("mounting a small disk, as root: %v", err)
	}
	m.t.Cleanup(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			m.t.Error(err)
		}
	})
	return path
}

// fill writes a file until the disk has no room.
func (m *machine) fill(path string) {
	m.t.Helper()
	f, err := os.Create(path)
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		m.t.Fatal(err)
	}
	f.Close()
}

// ban bans a client by hand, and returns the status of the answer.
func (p *program) ban() int {
	p.t.Helper()
	res, err := http.Post(p.url["admin"]+"/v1/bans", "application/json", strings.NewReader(`{"rule": "a", "key": ["192.0.2.1"], "for_ms": 60000}`))
	if err != nil {
		p.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// kill ends the program as a crash does.
func (p *program) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.exited
}

// TestStartsOnAFullDisk crashes a server, fills the real disk of its states, logs and copy, and starts it again. It decides with
// the saved states, says what it cannot write, and writes it when there is room.
func TestStartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]struct {
		options string // of the disk
		crashed bool   // whether a server has run there before
		fill    func(m *machine, disk string) (remove func())
	}{
		"after a crash": {"size=512k", true, func(m *machine, disk string) func() {
			m.fill(filepath.Join(disk, "junk"))
			return func() { _ = os.Remove(filepath.Join(disk, "junk")) }
		}},
		"without room for one more file": {"size=512k,nr_inodes=20", false, func(m *machine, disk string) func() {
			n := 0
			for ; ; n++ {
				if f, err := os.Create(filepath.Join(disk, fmt.Sprint(n))); err == nil {
					f.Close()
				} else if errors.Is(err, syscall.ENOSPC) {
					break
				} else {
					m.t.Fatal(err)
				}
			}
			return func() {
				for ; n >= 0; n-- {
					_ = os.Remove(filepath.Join(disk, fmt.Sprint(n)))
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			disk := m.disk(full.options)
			m.write("sluice.yaml", limited+m.here("store: {memory: {file: DIR/disk/states}}\naudit: {file: DIR/disk/audit.log}\naccess_log: {file: DIR/disk/access.log}\n"+
				"rules: [{name: a, key: client_ip, ban: {by_hand: true}, limit: {algorithm: token_bucket, rate: 1/h}}]\n"))
			start := func() *program { return run(t, m.binary, m.path("sluice.yaml"), "--last-good", m.path("disk/kept")) }
			requests := func(p *program, want ...int) {
				t.Helper()
				for _, status := range want {
					if got, _ := p.get("proxy", "/"); got != status {
						t.Errorf("a request is answered %d, want %d", got, status)
					}
				}
			}
			if full.crashed {
				p := start()
				requests(p, http.StatusOK, http.StatusTooManyRequests)
				if got := p.ban(); got >= 300 {
					t.Errorf("with room, a ban is answered %d", got)
				}
				p.metric(`sluice_state_saves_total{outcome="saved"} 2`)
				p.kill()
			}
			remove := full.fill(m, disk)
			p := start()
			if full.crashed {
				requests(p, http.StatusTooManyRequests)
			} else {
				requests(p, http.StatusOK, http.StatusTooManyRequests)
			}
			// The last page of a file has room for some more lines.
			eventually(t, "a refused ban", func() bool { return p.ban() == http.StatusServiceUnavailable })
			for _, want := range []string{"ok\n", "\nstates: n", "\naudit: cannot be written; ", "\naccess_log: cannot be written; ", "\nlast-good: ", "no space left on device"} {
				eventually(t, want, func() bool {
					if want == "\naccess_log: cannot be written; " {
						p.get("proxy", "/")
					}
					status, text := p.get("admin", "/readyz")
					return status == http.StatusOK && strings.Contains(text, want)
				})
			}
			p.metric("sluice_last_good_saved 0")
			for _, want := range []string{
				"level=ERROR msg=\"the disk is full, so the states cannot be saved: a crash loses", "the audit log cannot be written", "the access log cannot be written",
				"the next start has no current copy of the configuration",
			} {
				eventually(t, "a log of "+want, func() bool {
					if strings.HasPrefix(want, "the access log") {
						p.get("proxy", "/")
					}
					return strings.Contains(p.stderr.String(), want)
				})
			}
			remove()
			for _, gone := range []string{"states: ", "audit: ", "access_log: ", "last-good: "} {
				eventually(t, "the end of "+gone, func() bool {
					if gone == "access_log: " {
						p.get("proxy", "/")
					}
					_, text := p.get("admin", "/readyz")
					return !strings.Contains(text, gone)
				})
			}
			p.metric("sluice_last_good_saved 1")
			if text := p.stderr.String(); strings.Count(text, "so the states cannot be saved") != 1 || !strings.Contains(text, "the states are saved again") {
				t.Errorf("many saves failed, and the log does not have one line of them, and one of the end: %s", text)
			}
			if got := p.ban(); got >= 300 {
				t.Errorf("with room again, a ban is answered %d", got)
			}
			for _, file := range []string{"states", "kept", "audit.log", "access.log"} {
				if info, err := os.Stat(filepath.Join(disk, file)); err != nil || info.Size() == 0 {
					t.Errorf("the file %s: %v, %v", file, info, err)
				}
			}
			p.kill()
			p = start()
			requests(p, http.StatusTooManyRequests)
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil || p.wait() != 0 {
				t.Errorf("the server ends with %v: %s", err, p.stderr)
			}
		})
	}
}
