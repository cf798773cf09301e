package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4) // tests mostly wait for servers
	process.Main(m)
}

// server is a running sluice.
type server struct {
	*process.Sluice
	tb     testing.TB
	client *http.Client
	config string // the path of its configuration
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

// configure writes the file of a server into a folder, and returns its path.
func configure(tb testing.TB, dir, config string) string {
	tb.Helper()
	file := filepath.Join(dir, "sluice.yaml")
	listen := freePorts
	if strings.Contains(config, "listen:") {
		listen = ""
	}
	if err := os.WriteFile(file, []byte("version: 1\n"+listen+patient(config)), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// serve starts a server with a configuration, without its version, and with three listeners or none.
func serve(tb testing.TB, config string, env ...string) *server {
	tb.Helper()
	return serveIn(tb, tb.TempDir(), config, env...)
}

// serveIn is serve with the configuration in a folder.
func serveIn(tb testing.TB, dir, config string, env ...string) *server {
	tb.Helper()
	return serveProgram(tb, process.Program(), dir, config, env...)
}

// serveProgram is serveIn with another program.
func serveProgram(tb testing.TB, program, dir, config string, env ...string) *server {
	tb.Helper()
	s := &server{tb: tb, client: &http.Client{Timeout: process.Patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}}
	s.config = configure(tb, dir, config)
	cmd := exec.Command(program, "serve", s.config)
	cmd.Env = append(process.Environ(), env...)
	s.Sluice = process.StartSluice(tb, cmd, 3)
	tb.Cleanup(s.client.CloseIdleConnections)
	return s
}

// refused returns the log of a server that must not start.
func refused(tb testing.TB, config string, env ...string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), process.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, process.Program(), "serve", configure(tb, tb.TempDir(), config))
	cmd.Env = append(process.Environ(), env...)
	log, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		tb.Fatalf("the server starts:\n%s", log)
	}
	return string(log)
}

// validate returns what `sluice validate --connect` says of a configuration, with all that it
// prints.
func validate(tb testing.TB, config string) (string, error) {
	tb.Helper()
	text, err := exec.Command(process.Program(), "validate", "--brief", "--connect", configure(tb, tb.TempDir(), config)).CombinedOutput()
	return string(text), err
}

// drain ends it as an operator does, and returns its exit code.
func (s *server) drain() int {
	s.tb.Helper()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		s.tb.Fatal(err)
	}
	select {
	case <-s.Ended():
	case <-time.After(process.Patience):
		s.tb.Fatal("the server did not end on SIGTERM")
	}
	return s.ExitCode()
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
	r, err := http.NewRequestWithContext(context.Background(), method, s.URLs[listener]+path, strings.NewReader(body))
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

// storeIs reports whether /readyz says of the store what it should.
func (s *server) storeIs(state string) bool {
	_, text := s.ready()
	return strings.Contains(text, "store: "+state)
}
