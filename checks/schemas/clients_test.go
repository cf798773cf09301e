package schemas

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// description is the file that the API serves.
var description = filepath.Join("..", "..", "server", "internal", "edge", "api", "openapi.yaml")

// npm is the folder with the npm packages.
const npm = "testdata/typescript"

func TestMain(m *testing.M) {
	redistest.Parallel(2)
	process.Main(m)
}

// forClients has a rule for each kind of call. %s is the address of Redis.
const forClients = `version: 1
listen: {proxy: "off", api: "127.0.0.1:0", admin: "off"}
store: {redis: {addresses: ["%s"]}}
rules:
  - name: login
    match: {path: /login}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 2/d, starts: first_request}
    ban: {by_hand: true}
  - name: search
    match: {path: /search}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}
    when_limited: {action: mark}
  - name: units
    match: {path: /units}
    key: global
    limit: {algorithm: token_bucket, rate: 100/h}
    ahead: {units: 10, for: 1h}
  - name: jobs
    match: {path: /jobs}
    key: global
    limit: {algorithm: concurrency, max: 1, ttl: 1m}
  - name: hot
    match: {path: /hot}
    key: global
    hybrid: true
    limit: {algorithm: token_bucket, rate: 1000/s}
`

// run runs a program, and returns what it prints. A program that fails ends the test.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the program %v failed: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// within returns a command that ends with the test, and in bounded time.
func within(t *testing.T, d time.Duration, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	return cmd
}

// building is how long a program may be built, also when Go's cache is empty.
const building = 10 * time.Minute

// write writes a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copied copies files to a folder.
func copied(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, name), string(text))
	}
}

// goClient generates a client with oapi-codegen, and returns the command of the program around it.
func goClient(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	copied(t, filepath.Join("testdata", "go"), dir, "go.mod", "go.sum", "main.go")
	copied(t, filepath.Dir(description), dir, "openapi.yaml")
	for _, args := range [][]string{
		{"tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", "client.gen.go", "openapi.yaml"},
		{"vet", "."},
		{"build", "-ldflags=-w", "-o", "client", "."},
	} {
		cmd := within(t, building, dir, "go", args...)
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		run(t, cmd)
	}
	return []string{filepath.Join(dir, "client")}
}

// typescriptClient generates a client with openapi-typescript, checks the program around it with the compiler's strict rules,
// and returns its command.
func typescriptClient(t *testing.T) []string {
	t.Helper()
	node, err := process.Node(npm)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied(t, npm, dir, "package.json", "client.ts")
	copied(t, filepath.Dir(description), dir, "openapi.yaml")
	packages, err := filepath.Abs(filepath.Join(npm, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	run(t, within(t, building, dir, node, "node_modules/openapi-typescript/bin/cli.js", "openapi.yaml", "-o", "sluice.d.ts"))
	run(t, within(t, building, dir, node, "node_modules/typescript/bin/tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "client.ts"))
	return []string{node, filepath.Join(dir, "client.js")}
}

// TestGeneratedClients makes every call with generated clients, and compares every exchange with the description.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*testing.T) []string{"Go": goClient, "TypeScript": typescriptClient} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := client(t)
			redis := redistest.Start(t)
			file := filepath.Join(t.TempDir(), "sluice.yaml")
			write(t, file, fmt.Sprintf(forClients, redis.Addr()))
			const token, adminToken = "the-token-of-callers-in-tests", "the-token-of-operators-in-tests"
			serve := exec.Command(process.Program(), "serve", file)
			serve.Env = append(process.Environ(), "SLUICE_API_TOKEN="+token, "SLUICE_ADMIN_TOKEN="+adminToken)
			w := watch(t, process.StartSluice(t, serve, 1).URLs["api"])
			call := func(args ...string) string {
				cmd := within(t, 2*process.Patience, "", command[0], slices.Concat(command[1:], args)...)
				cmd.Env = append(os.Environ(), "URL="+w.url, "TOKEN="+token, "ADMIN_TOKEN="+adminToken)
				return strings.TrimSpace(run(t, cmd))
			}
			reservation := call("calls")
			// What a generated client cannot do.
			for _, q := range []struct {
				method, path string
				want         int
			}{{http.MethodGet, "/v1/check", http.StatusMethodNotAllowed}, {http.MethodGet, "/v1/other", http.StatusNotFound}, {http.MethodPost, "/", http.StatusMethodNotAllowed}} {
				r, err := http.NewRequestWithContext(t.Context(), q.method, w.url+q.path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+token)
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body) // the watch reads it
				if _ = res.Body.Close(); res.StatusCode != q.want {
					t.Errorf("%s %s: status %d, want %d", q.method, q.path, res.StatusCode, q.want)
				}
			}
			if err := redis.Kill(); err != nil {
				t.Fatal(err)
			}
			call("without-store", reservation)
			w.complete()
		})
	}
}

// TestDescriptionIsLinted lints the description with the strict rules of Redocly.
func TestDescriptionIsLinted(t *testing.T) {
	t.Parallel()
	node, err := process.Node(npm)
	if err != nil {
		t.Fatal(err)
	}
	if out := run(t, within(t, building, "", node, filepath.Join(npm, "lint.js"), description)); out != "" {
		t.Errorf("the description has findings:\n%s", out)
	}
}
