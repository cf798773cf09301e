package servers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
)

// patience is how long tests wait for what must come.
const patience = 20 * time.Second

// program is the path of sluice.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	redistest.Parallel(4) // tests mostly wait for servers
	dir, err := os.MkdirTemp("", "servers")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", program, "./cmd/sluice")
	build.Dir = filepath.Join("..", "..", "server")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building sluice: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// server is a running sluice.
type server struct {
	tb     testing.TB
	cmd    *exec.Cmd
	urls   map[string]string // by the name of the listener
	client *http.Client
	ended  chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

// Write takes the log.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *server) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// freePorts lets the system choose where a server listens.
const freePorts = "listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\n"

// patient gives a configuration that names no deadline a long one: on a busy machine
// a call may take longer than a service would wait.
func patient(config string) string {
	if strings.Contains(config, "deadline:") {
		return config
	}
	return strings.Replace(config, "store: {redis: {", "store: {redis: {deadline: 2s, ", 1)
}

// launch starts a server with a configuration, without its version, and with three listeners or none. It
// returns when it listens or has ended.
func launch(tb testing.TB, config string, env ...string) *server {
	tb.Helper()
	return launchIn(tb, tb.TempDir(), config, env...)
}

// launchIn is launch with the configuration in a folder.
func launchIn(tb testing.TB, dir, config string, env ...string) *server {
	tb.Helper()
	file := filepath.Join(dir, "sluice.yaml")
	listen := freePorts
	if strings.Contains(config, "listen:") {
		listen = ""
	}
	if err := os.WriteFile(file, []byte("version: 1\n"+listen+patient(config)), 0o600); err != nil {
		tb.Fatal(err)
	}
	s := &server{tb: tb, urls: map[string]string{}, ended: make(chan struct{})}
	s.client = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	s.cmd = exec.Command(program, "serve", file)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stderr = s
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	listening := make(chan struct{})
	go func() {
		defer close(s.ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if name, url, ok := strings.Cut(lines.Text(), " "); ok && name != "" { // not a note about the line before
				s.urls[name] = strings.TrimSpace(url)
			}
			if len(s.urls) == 3 {
				break
			}
		}
		close(listening)
		_, _ = io.Copy(io.Discard, out) // until it ends
		_ = s.cmd.Wait()                // tests look at the exit status where it matters
	}()
	tb.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.kill()
		if tb.Failed() {
			tb.Logf("a server's log:\n%s", s.logged())
		}
	})
	select {
	case <-listening:
	case <-time.After(patience):
		tb.Fatal("a server did not say where it listens")
	}
	return s
}

// serve is launch of a server that must listen.
func serve(tb testing.TB, config string, env ...string) *server {
	tb.Helper()
	return serveIn(tb, tb.TempDir(), config, env...)
}

// serveIn is serve with the configuration in a folder.
func serveIn(tb testing.TB, dir, config string, env ...string) *server {
	tb.Helper()
	s := launchIn(tb, dir, config, env...)
	if len(s.urls) != 3 {
		<-s.ended
		tb.Fatalf("the server ended: %s", s.logged())
	}
	return s
}

// refused returns the log of a server that must not start.
func refused(tb testing.TB, config string, env ...string) string {
	tb.Helper()
	s := launch(tb, config, env...)
	if len(s.urls) > 0 {
		tb.Fatal("the server starts")
	}
	<-s.ended
	return s.logged()
}

// validate returns what `sluice validate --connect` says of a configuration, with all that it
// prints.
func validate(tb testing.TB, config string) (string, error) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+patient(config)), 0o600); err != nil {
		tb.Fatal(err)
	}
	text, err := exec.Command(program, "validate", "--brief", "--connect", file).CombinedOutput()
	return string(text), err
}

// kill ends the process at once.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// drain ends it as an operator does, and returns its exit status.
func (s *server) drain() int {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.tb.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.tb.Fatal("the server did not end on SIGTERM")
	}
	return s.cmd.ProcessState.ExitCode()
}

// answer is what /v1/check says.
type answer struct {
	Allowed   bool
	Degraded  bool
	Rule      string
	Reason    string
	Remaining *int64
}

// request sends a request to a listener, and fails the test if there is no answer.
func (s *server) request(listener, method, path, body string) (int, string) {
	s.tb.Helper()
	status, text, err := s.try(listener, method, path, body)
	if err != nil {
		s.tb.Fatal(err)
	}
	return status, text
}

func (s *server) try(listener, method, path, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, s.urls[listener]+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	res, err := s.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// check calls /v1/check about a path for a client.
func (s *server) check(path, client string) (answer, error) {
	status, text, err := s.try("api", http.MethodPost, "/v1/check", fmt.Sprintf(`{"method": "GET", "path": %q, "client_ip": %q}`, path, client))
	if err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
		return a, fmt.Errorf("/v1/check answers %d %s", status, text)
	}
	return a, nil
}

// mustCheck is check that fails the test on an error.
func (s *server) mustCheck(path, client string) answer {
	s.tb.Helper()
	a, err := s.check(path, client)
	if err != nil {
		s.tb.Fatal(err)
	}
	return a
}

// ready returns the status and the lines of /readyz.
func (s *server) ready() (int, string) {
	s.tb.Helper()
	return s.request("admin", http.MethodGet, "/readyz", "")
}

// figure returns one of the figures.
func (s *server) figure(series string) string {
	s.tb.Helper()
	_, text := s.request("admin", http.MethodGet, "/metrics", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "no " + series
}

// eventually waits for a condition, and returns how long that took.
func eventually(tb testing.TB, what string, ok func() bool) time.Duration {
	tb.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for ; time.Since(began) < patience; <-tick.C {
		if ok() {
			return time.Since(began)
		}
	}
	tb.Fatalf("%s did not happen", what)
	return 0
}

// storeIs reports whether /readyz says of the store what it should.
func (s *server) storeIs(state string) bool {
	_, text := s.ready()
	return strings.Contains(text, "store: "+state)
}
