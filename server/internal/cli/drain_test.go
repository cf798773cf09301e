package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/soak"
)

// program is the built program, running.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    map[string]string // by listener
	stderr *lockedLog
	exited chan struct{}
}

// build returns the program: the binary of these tests is the program if it is called by that name.
func build(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("sluice")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// launch runs the program with a configuration until it is ready.
func launch(t *testing.T, path, configuration string) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, path, file)
}

// run runs the program with a configuration file, and further arguments, until it is ready.
func run(t *testing.T, path, file string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(path, append([]string{"serve", file}, args...)...), url: map[string]string{}, stderr: new(lockedLog), exited: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed
		<-p.exited
	})
	lines := bufio.NewScanner(out)
	where := regexp.MustCompile(`^(\w+) +(https?://\S+)`)
	for len(p.url) < 3 && lines.Scan() {
		if m := where.FindStringSubmatch(lines.Text()); m != nil {
			p.url[m[1]] = m[2]
		}
	}
	go func() {
		defer close(p.exited)
		_, _ = io.Copy(io.Discard, out)
		_ = p.cmd.Wait() // the state is looked at by the test
	}()
	if len(p.url) < 3 {
		<-p.exited
		t.Fatalf("the program did not say where it listens:\n%s", p.stderr)
	}
	return p
}

// wait waits for the end of the program and returns its exit status.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatal("the program did not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// load sends requests as fast as they are answered, until the server takes no more
// connections.
type load struct {
	url      string
	answered atomic.Int64
	lost     atomic.Int64
	mu       sync.Mutex
	reasons  map[string]int
}

// run is one client: it keeps its connection if keep is set.
func (l *load) run(keep bool, method string) {
	tr := &http.Transport{DisableKeepAlives: !keep, DisableCompression: true}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: patience}
	for {
		// A body that is not a buffer is sent only once: the client does not retry by itself.
		body := io.NopCloser(bytes.NewReader([]byte("body")))
		r, err := http.NewRequest(method, l.url, body)
		if err != nil {
			panic(err)
		}
		res, err := client.Do(r)
		var dial *net.OpError
		switch {
		case err == nil:
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK || string(text) != "begin end" {
				l.lose(fmt.Sprintf("%d %q %v", res.StatusCode, text, err))
				return
			}
			l.answered.Add(1)
		case errors.As(err, &dial) && dial.Op == "dial":
			return // no connection was made: the server takes no more
		default:
			l.lose(err.Error())
			return
		}
	}
}

func (l *load) lose(reason string) {
	l.lost.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reasons[regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(reason, "…")]++
}

// TestNoRequestIsLostWhenTheServerStops stops the real program under load: each client that
// got a connection gets the whole answer.
func TestNoRequestIsLostWhenTheServerStops(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "begin")
		w.(http.Flusher).Flush()
		<-time.After(3 * time.Millisecond) // work
		fmt.Fprint(w, " end")
	}))
	defer service.Close()
	path := build(t)
	for round := range soak.Times(t, 1) {
		p := launch(t, path, `
version: 1
listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}
upstream: `+service.URL+`
rules: [{name: many, key: [client_ip], limit: {algorithm: token_bucket, rate: 1000000/s}}]
`)
		l := &load{url: p.url["proxy"], reasons: map[string]int{}}
		var clients sync.WaitGroup
		for i := range 32 {
			clients.Go(func() { l.run(i%2 == 0, []string{http.MethodGet, http.MethodPost}[i/2%2]) })
		}
		eventually(t, "the load", func() bool { return l.answered.Load() > 500 })
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		before := l.answered.Load()
		clients.Wait()
		if status := p.wait(); status != 0 {
			t.Errorf("round %d: exit status %d\n%s", round, status, p.stderr)
		}
		if n := l.lost.Load(); n > 0 {
			t.Errorf("round %d: %d requests were lost: %v", round, n, l.reasons)
		}
		t.Logf("round %d: %d requests answered, %d of them after SIGTERM", round, l.answered.Load(), l.answered.Load()-before)
	}
}

// TestASecondSignalDoesNotWait ends a drain that somebody has no patience for, but
// takes copies of the first signal for that one.
func TestASecondSignalDoesNotWait(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(inside)
		<-leave
	}))
	defer service.Close()
	defer close(leave)
	p := launch(t, build(t), `
version: 1
listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}
upstream: `+service.URL+`
rules: [{name: many, key: [client_ip], limit: {algorithm: token_bucket, rate: 1000000/s}}]
`)
	go func() {
		if res, err := http.Get(p.url["proxy"]); err == nil {
			res.Body.Close()
		}
	}()
	<-inside
	first := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drain", func() bool {
		res, err := http.Get(p.url["admin"] + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusServiceUnavailable
	})
	eventually(t, "the end", func() bool {
		select {
		case <-p.exited:
			return true
		default:
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by now
			return false
		}
	})
	if took := time.Since(first); took < signalGrace {
		t.Errorf("copies of the first signal ended the program after %v", took)
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("the program ended with %v", p.cmd.ProcessState)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen", what)
}
