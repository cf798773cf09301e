package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
				t.Fatal(step)
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
		return strings.Contains(text, "sluice_config_reloads_total{outcome=\"applied\"} 3\n")
	}
	if applied() {
		t.Error("there were three reloads before the signal")
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
