package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// get returns the status and text of a page.
func (p *program) get(listener, path string) (int, string) {
	p.t.Helper()
	res, err := http.Get(p.url[listener] + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestTheProgramFollowsItsFile changes the file of the real program as Kubernetes
// does, and reminds it by SIGHUP of a change that cannot be seen.
func TestTheProgramFollowsItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	generation := 0
	mount := func(rate string) {
		t.Helper()
		generation++
		folder := fmt.Sprintf("..%d", generation)
		text := "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\n" +
			"rules: [{name: a, key: [client_ip], limit: {algorithm: token_bucket, rate: " + rate + "}}]\n"
		for _, step := range []error{
			os.Mkdir(filepath.Join(dir, folder), 0o700),
			os.WriteFile(filepath.Join(dir, folder, "sluice.yaml"), []byte(text), 0o600),
			os.Symlink(folder, filepath.Join(dir, "..tmp")),
			os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")),
		} {
			if step != nil {
				t.Fatalf("changing the folder failed: %v", step)
			}
		}
	}
	mount("1/h")
	file := filepath.Join(dir, "sluice.yaml")
	if err := os.Symlink("..data/sluice.yaml", file); err != nil {
		t.Fatal(err)
	}
	p := run(t, build(t), file)
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got, _ := p.get("proxy", "/"); got != want {
			t.Errorf("request %d answers %d, want %d", i, got, want)
		}
	}

	mount("1000000/s")
	eventually(t, "the reload", func() bool {
		status, _ := p.get("proxy", "/")
		return status == http.StatusOK
	})
	mount("5/x")
	eventually(t, "the refusal", func() bool {
		_, text := p.get("admin", "/readyz")
		return strings.Contains(text, "config: refused since ") && strings.Contains(text, "sluice.yaml:3:76")
	})
	if got, _ := p.get("proxy", "/"); got != http.StatusOK {
		t.Errorf("after the refusal: %d", got)
	}
	mount("1000000/s")
	eventually(t, "the recovery", func() bool {
		_, text := p.get("admin", "/readyz")
		return text == "ok\n"
	})

	applied := func() bool {
		_, text := p.get("admin", "/metrics")
		return strings.Contains(text, "sluice_config_reloads_total{outcome=\"applied\"} 4\n")
	}
	if applied() {
		t.Error("there were three reloads and the start before the signal")
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reload by SIGHUP", applied)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d\n%s", status, p.stderr)
	}
	if log := p.stderr.String(); strings.Count(log, "the configuration was reloaded") != 3 || !strings.Contains(log, "sluice.yaml:3:76: rules[0].limit.rate: ") {
		t.Errorf("the log:\n%s", log)
	}
}

// A server without a file has nothing to reload. SIGHUP does not end it, also not while it drains.
func TestSIGHUPWithoutAFile(t *testing.T) {
	cmd := exec.Command(build(t), "serve", "--listen-proxy", "127.0.0.1:0", "--listen-api", "off", "--listen-admin", "off", "--drain-timeout", "20s")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedLog{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		<-exited
	})
	var url string
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text())
	}
	go func() {
		defer close(exited)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // the state is looked at by the test
	}()
	send := func(s os.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	send(syscall.SIGHUP)
	eventually(t, "the line about SIGHUP", func() bool { return strings.Contains(log.String(), "SIGHUP changes nothing") })
	// An upload keeps the server from ending while it drains.
	body, upload := io.Pipe()
	answered := make(chan int, 1)
	go func() {
		defer close(answered)
		res, err := http.Post(url+"/", "text/plain", body)
		if err != nil {
			return
		}
		defer res.Body.Close()
		answered <- res.StatusCode
	}()
	if _, err := upload.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	send(syscall.SIGTERM)
	eventually(t, "the drain", func() bool { return strings.Contains(log.String(), "draining") })
	send(syscall.SIGHUP)
	send(syscall.SIGHUP)
	upload.Close()
	if got := <-answered; got != http.StatusOK {
		t.Errorf("the upload is answered %d", got)
	}
	<-exited
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("exit status %d: %s", status, log.String())
	}
}

// lockedLog is written by the program and read by the test.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestTheProgramFollowsItsToken replaces the file of the admin token while the program runs.
func TestTheProgramFollowsItsToken(t *testing.T) {
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "sluice.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "the-first-token-of-all")
	write(file, "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\nadmin: {token_file: "+token+"}\n"+
		"rules: [{name: a, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/s}}]\n")
	p := run(t, build(t), file)
	status := func(token string) int {
		q, err := http.NewRequest(http.MethodGet, p.url["admin"]+"/v1/bans?rule=a", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if got := status("the-first-token-of-all"); got == http.StatusUnauthorized {
		t.Fatal("the first token is refused")
	}
	write(token, "the-second-token-of-all")
	eventually(t, "the new token", func() bool { return status("the-second-token-of-all") != http.StatusUnauthorized })
	if got := status("the-first-token-of-all"); got != http.StatusUnauthorized {
		t.Errorf("the old token is answered %d", got)
	}
}
