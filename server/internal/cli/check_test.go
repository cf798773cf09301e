package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/config"
)

// machine is a folder with what a server needs.
type machine struct {
	t      *testing.T
	dir    string
	binary string
	env    []string // of its commands, beside the variables of the test
}

// command returns a command of the program.
func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.t.Context(), m.binary, args...)
	cmd.Env = append(os.Environ(), m.env...)
	return cmd
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), binary: build(t)}
	for _, name := range []string{"a", "b"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		m.write(name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
		m.write(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	}
	m.write("good", "0123456789abcdef0123456789abcdef")
	m.write("short", "hunter2")
	m.write("empty", "\n")
	m.write("other", "version: 1\n")
	if err := syscall.Mkfifo(m.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) write(name, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path(name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// here replaces folders in a configuration, and makes the system choose the ports.
func (m *machine) here(text string) string {
	text = strings.ReplaceAll(text, "DIR", m.dir)
	return regexp.MustCompile(`127\.0\.0\.1:(80\d\d|9090|6380)\b`).ReplaceAllString(text, "127.0.0.1:0")
}

// refused runs a command that must fail, in the folder, and returns its errors.
func (m *machine) refused(args ...string) string {
	m.t.Helper()
	cmd := m.command(args...)
	cmd.Dir = m.dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err == nil {
		m.t.Errorf("%s succeeds", strings.Join(args, " "))
	}
	return errs.String()
}

// serves starts a server, and ends it when it has announced where it listens.
func (m *machine) serves(args ...string) error {
	m.t.Helper()
	cmd := m.command(append([]string{"serve"}, args...)...)
	cmd.Dir = m.dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop() // a test that hangs says nothing
	announced, err := out.Read(make([]byte, 1<<16))
	if announced > 0 {
		err = cmd.Process.Signal(syscall.SIGTERM)
	}
	if ended := cmd.Wait(); ended != nil || err != nil {
		return fmt.Errorf("%w, %w: %s", ended, err, errs.String())
	}
	return nil
}

// content lists the files of the folder, with their sizes and times.
func (m *machine) content() (text string) {
	m.t.Helper()
	err := filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			text += fmt.Sprintln(path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

// refusal is a configuration with which no server starts.
type refusal struct {
	setting string // that causes it
	text    string // the configuration, without its version
	problem string
	remedy  string
}

// refusals has a row for each setting that names a file, a folder or a variable.
var refusals = []refusal{
	{"listen.proxy.tls.cert", "listen: {proxy: {address: '127.0.0.1:8080', tls: {cert: DIR/none, key: DIR/a.key}}}", "no such file", "a PEM file"},
	{"listen.proxy.tls.cert", "listen: {proxy: {address: '127.0.0.1:8080', tls: {cert: DIR/good, key: DIR/a.key}}}", "good holds no certificate", "BEGIN CERTIFICATE"},
	{"listen.proxy.tls.key", "listen: {proxy: {address: '127.0.0.1:8080', tls: {cert: DIR/a.pem, key: DIR/none}}}", "no such file", "a PEM file"},
	{"listen.api.tls.key", "listen: {api: {address: '127.0.0.1:8081', tls: {cert: DIR/a.pem, key: DIR/b.key}}}", "b.key is not the private key of DIR/a.pem", "belong together"},
	{"listen.admin.tls.client_ca", "listen: {admin: {address: '127.0.0.1:9090', tls: {cert: DIR/a.pem, key: DIR/a.key, client_ca: DIR/a.key}}}", "a.key holds no certificate", "BEGIN CERTIFICATE"},
	{"listen.auth", "listen: {auth: 'unix:DIR/none/auth.sock'}\ntrusted_proxies: unix", "the folder DIR/none does not exist", "make it"},
	{"listen.auth", "listen: {auth: 'unix:DIR/good'}\ntrusted_proxies: unix", "a file that is not a socket", "remove it"},
	{"listen.proxy", "listen: {proxy: 'no-such-host.invalid:8080'}", "no-such-host.invalid", "HOST:PORT"},
	{"listen.proxy", "listen: {proxy: '192.0.2.1:8080'}", "this machine does not have 192.0.2.1:8080", "HOST:PORT"},
	{"listen.auth", "listen: {auth: '[2001:db8::1]:8080'}\ntrusted_proxies: 2001:db8::/32", "this machine does not have [2001:db8::1]:8080", "HOST:PORT"},
	{"listen", "listen: {proxy: off, api: off, admin: off}", "all listeners are off", "leave one on"},
	{"upstream.tls.ca", "upstream: {url: 'https://127.0.0.1:1', tls: {ca: DIR/empty}}", "empty holds no certificate", "BEGIN CERTIFICATE"},
	{"upstream.tls.cert", "upstream: {url: 'https://127.0.0.1:1', tls: {cert: DIR/none, key: DIR/a.key}}", "no such file", "a PEM file"},
	{"upstream.tls.key", "upstream: {url: 'https://127.0.0.1:1', tls: {cert: DIR/a.pem, key: DIR/b.key}}", "is not the private key", "belong together"},
	{"admin.token_file", "admin: {token_file: DIR/none}", "no such file", "holds the token"},
	{"admin.token_file", "admin: {token_file: DIR/pipe}", "pipe is not a regular file", "holds the token"},
	{"listen.proxy.tls.cert", "listen: {proxy: {address: '127.0.0.1:8080', tls: {cert: DIR/pipe, key: DIR/a.key}}}", "pipe is not a regular file", "a PEM file"},
	{"log.key_secret_file", "log: {key_secret_file: DIR/pipe}", "pipe is not a regular file", "holds the secret"},
	{"admin.token_file", "admin: {token_file: DIR/short}", "short has 7 characters, which can be guessed", "openssl rand"},
	{"admin.token", "admin: {token: hunter2}", "has 7 characters, which can be guessed", "openssl rand"},
	{"api.token_file", "api: {token_file: DIR/empty}", "empty is empty", "put one there"},
	{"api.read_token_file", "api: {read_token_file: DIR/short}", "short has 7 characters, which can be guessed", "openssl rand"},
	{"log.key_secret_file", "log: {key_secret_file: DIR/short}", "the secret has 7 bytes", "openssl rand"},
	{"log.key_secret_env", "log: {key_secret_env: NOT_SET}", "NOT_SET is not set", "put the secret there"},
	{"access_log.file", "access_log: {file: DIR/none/access.log}", "the folder DIR/none does not exist", "make it"},
	{"access_log.file", "access_log: {file: DIR}", "is not a file that lines can be appended to", "give the path of a file"},
	{"audit.file", "audit: {file: DIR/none/audit.log}", "the folder DIR/none does not exist", "make it"},
	{"scale_out.webhook.secret_file", "scale_out: {webhook: {url: 'http://127.0.0.1:1', secret_file: DIR/short}}", "the secret has 7 bytes", "openssl rand"},
	{"scale_out.webhook.secret_env", "scale_out: {webhook: {url: 'http://127.0.0.1:1', secret_env: NOT_SET}}", "NOT_SET is not set", "put the secret there"},
	{"store.memory.file", "store: {memory: {file: DIR/none/states}}", "none", "make the folder first"},
	{"store.memory.file", "store: {memory: {file: DIR}}", "is not a regular file", "give the path of a file"},
	{"store.redis.password_file", "store: {redis: {addresses: '127.0.0.1:1', password_file: DIR/empty}}", "empty is empty", "put the secret there"},
	{"store.redis.password_env", "store: {redis: {addresses: '127.0.0.1:1', password_env: NOT_SET}}", "NOT_SET is not set", "put the secret there"},
	{"store.redis.tls.ca", "store: {redis: {addresses: '127.0.0.1:1', tls: {ca: DIR/none}}}", "no such file", "a PEM file"},
	{"store.redis.tls.cert", "store: {redis: {addresses: '127.0.0.1:1', tls: {cert: DIR/none, key: DIR/a.key}}}", "no such file", "a PEM file"},
	{"store.redis.tls.key", "store: {redis: {addresses: '127.0.0.1:1', tls: {cert: DIR/b.pem, key: DIR/a.key}}}", "is not the private key", "belong together"},
	{"store.redis.hash_keys.secret_file", "store: {redis: {addresses: '127.0.0.1:1', hash_keys: {secret_file: DIR/short}}}", "the secret has 7 bytes", "openssl rand"},
	{"store.redis.hash_keys.secret_env", "store: {redis: {addresses: '127.0.0.1:1', hash_keys: {secret_env: NOT_SET}}}", "NOT_SET is not set", "put the secret there"},
	{"store.redis.sentinel.password_file", "store: {redis: {sentinel: {master: m, addresses: '127.0.0.1:1', password_file: DIR/none}}}", "no such file", "holds the secret"},
	{"store.redis.sentinel.password_env", "store: {redis: {sentinel: {master: m, addresses: '127.0.0.1:1', password_env: NOT_SET}}}", "NOT_SET is not set", "put the secret there"},
}

// TestValidateFindsWhatServeRefuses runs validate and serve on configurations that name what the machine lacks. Both report
// the same, with the position of the setting, and change nothing.
func TestValidateFindsWhatServeRefuses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write("sluice.yaml", "")
	for _, x := range refusals {
		m.write("sluice.yaml", m.here("version: 1\n"+x.text+"\n"))
		before := m.content()
		found := m.refused("validate", "sluice.yaml")
		if after := m.content(); after != before {
			t.Errorf("%s: validate has changed\n%s\nto\n%s", x.text, before, after)
		}
		want := regexp.MustCompile(`^sluice\.yaml:2:\d+: ` + regexp.QuoteMeta(x.setting) + ": [^\n]*" + regexp.QuoteMeta(m.here(x.problem)))
		if first, _, _ := strings.Cut(found, "\n"); !want.MatchString(first) || !strings.Contains(first, x.remedy) || strings.Count(found, "sluice.yaml:") != 1 || strings.Contains(found, "hunter2") {
			t.Errorf("%s: validate prints\n%s", x.text, found)
		}
		if got := m.refused("serve", "sluice.yaml"); got != found {
			t.Errorf("%s: serve prints\n%s\nand validate\n%s", x.text, got, found)
		}
		if out, err := m.command("validate", "--file-only", m.path("sluice.yaml")).CombinedOutput(); err != nil {
			t.Errorf("%s: validate --file-only: %v\n%s", x.text, err, out)
		}
	}
}

// TestEverySettingOfTheMachineIsChecked finds a row of refusals for each setting that names a file or a variable.
func TestEverySettingOfTheMachineIsChecked(t *testing.T) {
	listener := regexp.MustCompile(`^listen\.\w+\.`)
	rows := map[string]bool{}
	for _, x := range refusals {
		rows[listener.ReplaceAllString(x.setting, "listen.*.")] = true
	}
	found := 0
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for _, field := range reader.Fields(typ) {
			name := field.Tag.Get("yaml")
			at := strings.TrimPrefix(path+"."+name, ".")
			use := field.Tag.Get("path")
			if use == "read" || use == "written" || strings.HasSuffix(name, "_env") {
				found++
				if at = listener.ReplaceAllString(at, "listen.*."); !rows[at] {
					t.Errorf("no row of refusals has %s", at)
				}
			}
			walk(at, field.Type)
		}
	}
	walk("", reflect.TypeFor[config.File]())
	if found < 20 {
		t.Errorf("only %d settings were found", found)
	}
}

// TestAllMistakesAtOnce counts the mistakes of a configuration that lacks many things.
func TestAllMistakesAtOnce(t *testing.T) {
	m := newMachine(t)
	m.write("sluice.yaml", m.here(`version: 1
listen:
  proxy: {address: "127.0.0.1:8080", tls: {cert: DIR/none, key: DIR/gone, client_ca: DIR/empty}}
  api: {address: "127.0.0.1:8081", tls: {cert: DIR/a.pem, key: DIR/b.key}}
  auth: unix:DIR/none/auth.sock
  grpc: 192.0.2.1:8083
trusted_proxies: unix
upstream: {url: "https://127.0.0.1:1", tls: {ca: DIR/none}}
admin: {token_file: DIR/none}
api: {token: hunter2}
log: {key_secret_env: NOT_SET}
access_log: {file: DIR/none/access.log}
audit: {file: DIR/none/audit.log}
scale_out: {webhook: {url: "http://127.0.0.1:1", secret_file: DIR/short}}
store:
  redis:
    addresses: 127.0.0.1:1
    password_env: NOT_SET
    tls: {ca: DIR/none, cert: DIR/a.pem, key: DIR/none}
    hash_keys: {secret_file: DIR/empty}
`))
	lines := regexp.MustCompile(`(?m)^sluice\.yaml:(\d+):\d+: [^;\n]+(; |: )[^\n]+$`)
	for _, command := range []string{"validate", "serve"} {
		got := m.refused(command, "sluice.yaml")
		var at []string
		for _, l := range lines.FindAllStringSubmatch(got, -1) {
			at = append(at, l[1])
		}
		if want := "3 3 3 4 5 6 8 9 10 11 12 13 14 18 19 19 20"; strings.Join(at, " ") != want {
			t.Errorf("%s names lines %s, want %s:\n%s", command, at, want, got)
		}
	}
}

// TestValidateOpensNoPort validates the configuration of a server that runs, with its states and its sockets.
func TestValidateOpensNoPort(t *testing.T) {
	m := newMachine(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	m.write("sluice.yaml", m.here("version: 1\nlisten: {proxy: '127.0.0.1:8080', api: '127.0.0.1:8081', admin: '127.0.0.1:9090', auth: 'unix:DIR/auth.sock'}\n"+
		"trusted_proxies: unix\nstore: {memory: {file: DIR/states}}\naudit: {file: DIR/audit.log}\n"))
	p := run(t, m.binary, m.path("sluice.yaml"), "--last-good", m.path("kept"))
	before := m.content()
	out, err := m.command("validate", m.path("sluice.yaml"), "--last-good", m.path("kept")).CombinedOutput()
	if err != nil {
		t.Errorf("beside the server, validate prints %s", out)
	}
	if after := m.content(); strings.Count(after, "\n") != strings.Count(before, "\n") {
		t.Errorf("validate has changed\n%s\nto\n%s", before, after)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil || p.wait() != 0 {
		t.Errorf("the server ended with %v: %s", err, p.stderr)
	}
	m.write("taken.yaml", "version: 1\nlisten: {proxy: '"+taken+"', api: off, admin: off}\n")
	if out, err := m.command("validate", m.path("taken.yaml")).CombinedOutput(); err != nil {
		t.Errorf("with a port in use, validate prints %s", out)
	}
	if got := m.refused("serve", "taken.yaml"); !strings.Contains(got, "is in use by another program") {
		t.Errorf("with a port in use, serve prints %s", got)
	}
}

// TestEveryExampleOfTheConfigurationPageStarts validates and starts each configuration of docs/configuration.md. Only folders,
// ports, and addresses of other machines are replaced.
func TestEveryExampleOfTheConfigurationPageStarts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	for name, from := range map[string]string{
		"etc/cert.pem": "a.pem", "etc/key.pem": "a.key", "etc/callers.pem": "b.pem", "etc/ca.pem": "b.pem", "etc/client.pem": "a.pem", "etc/client.key": "a.key",
		"secrets/sluice": "good", "secrets/callers": "good", "secrets/read": "good", "secrets/log": "good", "secrets/redis": "good", "secrets/keys": "good", "secrets/sentinel": "good", "secrets/webhook": "good",
		"log/made": "empty", "lib/made": "empty", "run/made": "empty",
	} {
		text, err := os.ReadFile(m.path(from))
		if err != nil {
			t.Fatal(err)
		}
		m.write(name, string(text))
	}
	if err := os.CopyFS(m.path("files"), os.DirFS("../config/testdata/configuration/files")); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"WEBHOOK_SECRET", "SENTINEL_PASSWORD", "REDIS_PASSWORD", "KEY_SECRET", "LOG_SECRET"} {
		m.env = append(m.env, variable+"=0123456789abcdef0123456789abcdef")
	}
	local := strings.NewReplacer(
		"/etc/sluice", m.path("etc"), "/run/secrets", m.path("secrets"), "/var/lib/sluice", m.path("lib"), "/var/log/sluice", m.path("log"), "/run/sluice", m.path("run"),
		"0.0.0.0:8080", "0.0.0.0:0", "0.0.0.0:443", "0.0.0.0:0", "0.0.0.0:8081", "0.0.0.0:0", "0.0.0.0:9090", "0.0.0.0:0", "10.0.0.7:8081", "0.0.0.0:0",
		"redis-1.internal:6379", "127.0.0.1:1", "redis-2.internal:6379", "127.0.0.1:2", "127.0.0.1:6379", "127.0.0.1:1",
		"10.0.0.1:26379", "127.0.0.1:1", "10.0.0.2:26379", "127.0.0.1:2", "10.0.0.3:26379", "127.0.0.1:3",
	)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) < 20 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	for _, x := range examples {
		m.write("sluice.yaml", m.here(local.Replace(x[1])))
		if out, err := m.command("validate", m.path("sluice.yaml")).CombinedOutput(); err != nil {
			t.Errorf("validate prints\n%s\nfor\n%s", out, x[1])
		}
		args := []string{m.path("sluice.yaml")}
		for _, name := range []string{"proxy", "api", "admin"} {
			if !regexp.MustCompile(`(?m)^listen:.*(\n .*)*\b` + name + ":").MatchString(x[1]) {
				args = append(args, "--listen-"+name, "127.0.0.1:0")
			}
		}
		if err := m.serves(args...); err != nil {
			t.Errorf("serve ends with %v\nfor\n%s", err, x[1])
		}
	}
}
