package servers

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// restarts is how often a server restarts under load; SLUICE_SOAK multiplies it.
const restarts = 2

// enough is a limit that no test uses up.
const enough = 100_000_000

// callers send requests to one address, over HTTP/1.1 with connections of their own and over HTTP/2. They
// forgive nothing: a connection ends after an answer that says so, and in no other way.
type callers struct {
	address string
	trust   *tls.Config
	stop    chan struct{}
	running sync.WaitGroup
	allowed map[string]*atomic.Int64 // by path
	mu      sync.Mutex
	failed  []error
}

// call starts callers of some paths.
func call(address string, trust *tls.Config, paths ...string) *callers {
	c := &callers{address: address, trust: trust, stop: make(chan struct{}), allowed: map[string]*atomic.Int64{}}
	for _, path := range paths {
		c.allowed[path] = new(atomic.Int64)
	}
	for _, path := range paths {
		for range 4 {
			c.running.Go(func() { c.overOne(path) })
		}
		c.running.Go(func() { c.overTwo(path) })
	}
	return c
}

// ended reports, after a short pause, whether the calls shall end.
func (c *callers) ended() bool {
	select {
	case <-c.stop:
		return true
	case <-time.After(5 * time.Millisecond):
		return false
	}
}

func (c *callers) fail(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, fmt.Errorf("%s: %w", what, err))
}

// answered counts an answer.
func (c *callers) answered(path string, status int) {
	if status != http.StatusOK {
		c.fail(path, fmt.Errorf("status %d", status))
		return
	}
	c.allowed[path].Add(1)
}

// overOne calls over HTTP/1.1.
func (c *callers) overOne(path string) {
	for !c.ended() {
		if err := c.connection(path); err != nil {
			c.fail("HTTP/1.1", err)
			return
		}
	}
}

// connection calls over one connection, until an answer closes it.
func (c *callers) connection(path string) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: process.Patience}, "tcp", c.address, c.trust)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(process.Patience)); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	for !c.ended() {
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: sluice.test\r\n\r\n", path); err != nil {
			return err
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		_ = res.Body.Close() // the next answer follows on the connection
		c.answered(path, res.StatusCode)
		if res.Close {
			return nil
		}
	}
	return nil
}

// overTwo calls over HTTP/2. The client repeats what a server that leaves has not begun, as HTTP/2 lets it.
func (c *callers) overTwo(path string) {
	t := &http.Transport{TLSClientConfig: c.trust.Clone(), Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP2(true)
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, Timeout: process.Patience}
	for !c.ended() {
		res, err := client.Get("https://" + c.address + path)
		if err != nil {
			c.fail("HTTP/2", err)
			return
		}
		_ = res.Body.Close()
		c.answered(path, res.StatusCode)
	}
}

// check ends the calls, and reports the failures.
func (c *callers) check(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.running.Wait()
	if err := errors.Join(c.failed...); err != nil {
		t.Errorf("%d requests failed during restarts: %v", len(c.failed), err)
	}
	for path, n := range c.allowed {
		if n.Load() < 100 {
			t.Errorf("%s was called %d times only", path, n.Load())
		}
		t.Logf("%s: %d requests", path, n.Load())
	}
}

// audit compares what a path's limit has used with what the callers got.
func (c *callers) audit(t *testing.T, s *server, path string) {
	t.Helper()
	a := s.mustCheck(path, "127.0.0.1")
	if a.Remaining == nil {
		t.Fatalf("%s: no number remains: %+v", path, a)
	}
	if used := enough - *a.Remaining - 1; used != c.allowed[path].Load() {
		t.Errorf("%s: the limit has used %d units after the restarts, and %d requests were answered", path, used, c.allowed[path].Load())
	}
}

// restarting is a server that is replaced while clients call it.
type restarting struct {
	address string
	trust   *tls.Config
	dir     string
	now     *server
	rule    string // one of its rules
	replace func() // ends the server that runs, and starts the next
}

// newRestarting returns one with a certificate in its folder.
func newRestarting(t *testing.T, address string) *restarting {
	t.Helper()
	r := &restarting{address: address, dir: t.TempDir()}
	var err error
	if r.trust, err = redistest.WriteCertificate(r.dir); err != nil {
		t.Fatal(err)
	}
	return r
}

// end drains the server that runs.
func (r *restarting) end(t *testing.T, s *server) {
	t.Helper()
	if code := s.drain(); code != 0 {
		t.Fatalf("a server ended with %d:\n%s", code, s.Log())
	}
}

// loaded waits until the server that runs has decided some requests.
func (r *restarting) loaded(t *testing.T) {
	t.Helper()
	process.Eventually(t, "some hundred decisions of a server", func() bool {
		return r.now.number(`sluice_decisions_total{outcome="allowed",rule="`+r.rule+`"}`) > 300
	})
}

// behindASocket starts a server whose socket systemd holds, here the test. Its budgets are in a file of states.
func behindASocket(t *testing.T) *restarting {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	r := newRestarting(t, ln.Addr().String())
	file := configure(t, r.dir, fmt.Sprintf(`
listen: {proxy: {address: '%[1]s', tls: {cert: '%[2]s/server.crt', key: '%[2]s/server.key'}}, api: '127.0.0.1:0', admin: '127.0.0.1:0'}
upstream: echo
store: {memory: {file: '%[2]s/states'}}
rules: [{name: one, match: {path: /one}, key: client_ip, limit: {algorithm: fixed_window, rate: %[3]d/30d}}]
`, r.address, r.dir, enough))
	start := func() *server {
		// systemd names the process that the sockets are for; exec keeps its number.
		cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" serve "$1"`, process.Program(), file)
		cmd.Env = append(process.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=proxy")
		cmd.ExtraFiles = []*os.File{socket}
		return &server{tb: t, client: &http.Client{Timeout: process.Patience}, Sluice: process.StartSluice(t, cmd, 3)}
	}
	r.now, r.rule = start(), "one"
	r.replace = func() {
		r.end(t, r.now)
		r.now = start()
	}
	return r
}

// sharingAPort starts a server that the next ones start beside, before it drains. They share limits in Redis.
func sharingAPort(t *testing.T) *restarting {
	t.Helper()
	// The port stays ours between the servers: a socket that is bound and does not listen gets no connections.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	r := newRestarting(t, fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port))
	config := fmt.Sprintf(`
listen: {proxy: {address: '%[1]s', reuse_port: true, tls: {cert: '%[2]s/server.crt', key: '%[2]s/server.key'}}, api: '127.0.0.1:0', admin: '127.0.0.1:0'}
upstream: echo
drain: {delay: 20ms}
store: {redis: {addresses: ['%[3]s']}}
rules:
  - {name: exact, match: {path: /exact}, key: client_ip, limit: {algorithm: fixed_window, rate: %[4]d/30d}}
  - {name: hybrid, match: {path: /hybrid}, key: client_ip, hybrid: {sync: 1s, stranded: 10%%}, limit: {algorithm: fixed_window, rate: %[4]d/30d}}
`, r.address, r.dir, redistest.Start(t).Addr(), enough)
	r.now, r.rule = serveIn(t, r.dir, config), "exact"
	r.replace = func() {
		old := r.now
		r.now = serveIn(t, r.dir, config)
		r.end(t, old)
	}
	return r
}

// Restarts of a server whose socket systemd holds fail no request: connections wait meanwhile. The budget is exact.
func TestRestartsBehindASocketLoseNothing(t *testing.T) {
	t.Parallel()
	r := behindASocket(t)
	c := call(r.address, r.trust, "/one")
	for range redistest.Times(t, restarts) {
		r.loaded(t)
		r.replace()
	}
	c.check(t)
	c.audit(t, r.now, "/one")
}

// A server that shares its port with the next one, and then drains, loses no request. Limits are exact, and hybrid limits
// return what they hold.
func TestServersThatShareAPortLoseNothing(t *testing.T) {
	t.Parallel()
	r := sharingAPort(t)
	c := call(r.address, r.trust, "/exact", "/hybrid")
	for range redistest.Times(t, restarts) {
		r.loaded(t)
		r.replace()
	}
	c.check(t)
	r.replace() // so that the units of hybrid limits are back
	c.audit(t, r.now, "/exact")
	c.audit(t, r.now, "/hybrid")
}

// The client wrk reports no failure over 20 restarts, in each way. The client h2load is not here: it counts a failure for each
// connection that a server ends with GOAWAY.
func TestForeignClientsSeeNoRestart(t *testing.T) {
	wrk, err := process.Find("wrk", "wrk")
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(*testing.T) *restarting{"behind a socket": behindASocket, "sharing a port": sharingAPort} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			w := process.Start(t, exec.Command(wrk, "-c", "16", "-t", "1", "-d", "1h", "--timeout", "10s", "https://"+r.address+"/"+r.rule))
			for range 20 {
				r.loaded(t)
				r.replace()
			}
			if err := w.Signal(syscall.SIGINT); err != nil {
				t.Fatalf("wrk ended before the restarts did: %v", err)
			}
			<-w.Ended() // it has reported
			text := w.Log()
			if !strings.Contains(text, "Requests/sec") || strings.Contains(text, "Socket errors") || strings.Contains(text, "Non-2xx") {
				t.Errorf("wrk reports failures:\n%s", text)
			}
		})
	}
}
