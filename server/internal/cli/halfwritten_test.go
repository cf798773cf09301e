package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeSlowly lets another program truncate a file, and write its parts with a pause before each. Meanwhile it calls look again
// and again.
func (m *machine) writeSlowly(name string, look func(), parts ...string) {
	m.t.Helper()
	script := "exec 3> \"$0\"\n"
	args := []string{m.path(name)}
	for i, part := range parts {
		script += fmt.Sprintf("sleep 0.2; printf %%s \"$%d\" >&3\n", i+1)
		args = append(args, part)
	}
	cmd := exec.CommandContext(m.t.Context(), "sh", append([]string{"-c", script}, args...)...)
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- cmd.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-written:
			if err != nil {
				m.t.Fatal(err)
			}
			return
		case <-tick.C:
			look()
		}
	}
}

// metric waits until a metric has a value.
func (p *program) metric(line string) {
	p.t.Helper()
	eventually(p.t, line, func() bool {
		_, text := p.get("admin", "/metrics")
		return strings.Contains(text, line+"\n")
	})
}

const limited = "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\n"

// TestHalfWrittenFilesAreNotApplied lets another program truncate each kind of file that a server reads again, and write it
// slowly. Each beginning of a file is valid, and allows what the whole file does not.
func TestHalfWrittenFilesAreNotApplied(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	rule := "rules:\n  - {name: all, key: global, limit: {algorithm: token_bucket, rate: 1/h}}\n"
	second := "  - {name: second, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h}, deny: {client_ip_file: denied.txt}}\n"
	head := limited + m.here("admin: {token_file: DIR/token}\n")
	m.write("token", "0123456789abcdef")
	m.write("denied.txt", "192.0.2.1\n")
	m.write("sluice.yaml", head+rule+second)
	p := run(t, m.binary, m.path("sluice.yaml"))
	status := func(token string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url["admin"]+"/metrics", nil)
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
	refused := func() {
		if got, _ := p.get("proxy", "/"); got == http.StatusOK {
			t.Error("a request is allowed")
		}
	}
	p.get("proxy", "/") // the one request of an hour
	log := func(text string, times int) {
		t.Helper()
		eventually(t, text, func() bool { return strings.Count(p.stderr.String(), text) >= times })
	}
	m.writeSlowly("sluice.yaml", refused, limited, strings.TrimPrefix(head, limited), rule, second, "  - {name: third, key: global, limit: {algorithm: token_bucket, rate: 1/h}}\n")
	log("the configuration was reloaded", 1)
	m.writeSlowly("denied.txt", refused, "192.0.2.1\n", "192.0.2.2\n", "127.0.0.1\n")
	log("the configuration was reloaded", 2)
	m.writeSlowly("token", func() {
		if status("0123456789ABCDEF") == http.StatusOK {
			t.Error("half a token is accepted")
		}
	}, "0123456789ABCDEF", "0123456789ABCDEF")
	log("files have changed, and their new content is in use", 1)
	if got := status(strings.Repeat("0123456789ABCDEF", 2)); got != http.StatusOK {
		t.Errorf("the whole token is answered %d", got)
	}
	if text := p.stderr.String(); strings.Count(text, "was reloaded") != 2 || strings.Count(text, "new content is in use") != 1 || strings.Contains(text, "refused") {
		t.Errorf("the log has %s", text)
	}
}

// TestHalfWrittenCertificatesAreNotRead replaces a certificate and its key, each slowly.
func TestHalfWrittenCertificatesAreNotRead(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	read := func(name string) string {
		text, err := os.ReadFile(m.path(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	m.write("cert", read("a.pem"))
	m.write("key", read("a.key"))
	m.write("sluice.yaml", m.here("version: 1\nlisten: {proxy: '127.0.0.1:0', api: off, admin: '127.0.0.1:0', auth: {address: '127.0.0.1:0', tls: {cert: DIR/cert, key: DIR/key}}}\ntrusted_proxies: 127.0.0.1\n"))
	p := run(t, m.binary, m.path("sluice.yaml"))
	cert, key := read("b.pem"), read("b.key")
	m.write("key", key) // both have changed when the certificate is complete
	m.writeSlowly("cert", func() {}, cert[:50], cert[50:100], cert[100:])
	p.metric(`sluice_file_refreshes_total{outcome="applied"} 1`)
	p.metric(`sluice_file_refreshes_total{outcome="refused"} 0`)
}

// TestHalfWrittenFilesOfEnvoy writes files of a folder slowly, also one that is invalid at first.
func TestHalfWrittenFilesOfEnvoy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	begin, rest := "domain: edge\ndescriptors:\n", "  - key: a\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
	m.write("config/edge.yaml", begin+rest)
	for _, variable := range []string{"PORT", "GRPC_PORT"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m.env = append(m.env, fmt.Sprintf("%s=%d", variable, ln.Addr().(*net.TCPAddr).Port))
		ln.Close()
	}
	log := &lockedLog{}
	cmd := m.command("serve", "--envoy-config", m.path("config"), "--listen-admin", "127.0.0.1:0")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil || cmd.Wait() != nil {
			t.Errorf("the server ends with %v: %s", err, log.String())
		}
	}()
	reloads := 0
	reloaded := func(rules int) {
		t.Helper()
		reloads++
		eventually(t, "a reload", func() bool { return strings.Count(log.String(), "was reloaded") >= reloads })
		if text := log.String(); strings.Count(text, "was reloaded") != reloads || !strings.Contains(text[strings.LastIndex(text, "was reloaded"):], fmt.Sprintf("rules=%d ", rules)) {
			t.Fatalf("want %d reloads, the last one with %d rules: %s", reloads, rules, text)
		}
	}
	eventually(t, "the start", func() bool { return strings.Contains(log.String(), "the configuration is of Envoy") })
	m.writeSlowly("config/edge.yaml", func() {}, begin, rest, strings.Replace(rest, "key: a", "key: b", 1))
	reloaded(2)
	m.writeSlowly("config/more.yaml", func() {}, "domain: more\n", "descriptors:\n", rest)
	reloaded(3)
	m.write("config/last.yaml", "domain: last\ndescriptors: 5\n")
	eventually(t, "the refusal", func() bool { return strings.Contains(log.String(), "last.yaml:2:") })
	m.write("config/last.yaml", "domain: last\ndescriptors:\n"+rest)
	reloaded(4)
	m.write("config/last.yaml", "domain: last\n")
	eventually(t, "the refusal", func() bool {
		return strings.Contains(log.String(), "last.yaml:1:1: descriptors: is missing, and the file had 1 limit; write descriptors: [] if all of them should go")
	})
	m.write("config/last.yaml", "domain: last\ndescriptors: []\n")
	reloaded(3)
}

// TestNothingIsRemovedUnsaid leaves files as a writer that was killed leaves them. The limits stay until the file removes them.
func TestNothingIsRemovedUnsaid(t *testing.T) {
	m := newMachine(t)
	rules := "rules: [{name: all, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h}, deny: {client_ip_file: denied.txt}, overrides: table.csv}]\n"
	const list, table = "127.0.0.1\n", "key,burst\n192.0.2.1,5\n"
	m.write("denied.txt", list)
	m.write("table.csv", table)
	m.write("sluice.yaml", limited+rules)
	p := run(t, m.binary, m.path("sluice.yaml"))
	refused, applied := 0, 0
	for _, x := range []struct{ name, text, problem string }{
		{"sluice.yaml", limited, "sluice.yaml:1:1: rules: is missing, and the file had 1 rule; write rules: [] if all of them should go"},
		{"sluice.yaml", "version: 1\n", "rules: is missing"},
		{"sluice.yaml", limited + "rules:\n", "rules: has no value; give rules, or write rules: [] for none"},
		{"sluice.yaml", "", "the file is empty"},
		{"sluice.yaml", limited + rules, ""},
		{"denied.txt", "", "is empty, and had 10 bytes; write the file again; if nothing belongs in it, write a line that begins with #"},
		{"denied.txt", list, ""},
		{"table.csv", "\n", "is empty, and had 22 bytes"},
		{"table.csv", "key,burst\n", "has the names of its columns, and no other line"},
		{"table.csv", table, ""},
	} {
		m.write(x.name, x.text)
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if x.problem == "" {
			applied++
			eventually(t, "a reload", func() bool { return strings.Count(p.stderr.String(), "was reloaded") >= applied })
		} else {
			eventually(t, x.problem, func() bool { return strings.Contains(p.stderr.String(), x.problem) })
			refused++
		}
		if got, _ := p.get("proxy", "/"); got == http.StatusOK {
			t.Errorf("after %q in %s, a request is allowed", x.text, x.name)
		}
	}
	m.write("denied.txt", "# nobody\n")
	m.write("sluice.yaml", limited+"rules: []\n")
	eventually(t, "no limits", func() bool {
		got, _ := p.get("proxy", "/")
		return got == http.StatusOK
	})
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
