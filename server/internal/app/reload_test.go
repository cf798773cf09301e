package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/store/remote"
	"google.golang.org/grpc/credentials/insecure"
)

// reloadable runs an App over a file, which write changes.
type reloadable struct {
	*running
	path string
}

func reloading(t *testing.T, text string) *reloadable {
	t.Helper()
	r := &reloadable{path: filepath.Join(t.TempDir(), "test.yaml")}
	load := func() (*config.File, error) { return config.Load(r.path) }
	r.running = &running{t: t}
	r.write(text)
	f, err := load()
	if err != nil {
		t.Fatal(err)
	}
	r.running = start(t, f, func(o *Options) { o.Load = load })
	return r
}

// write replaces the file.
func (r *reloadable) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path+".new", []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.path+".new", r.path); err != nil {
		r.t.Fatal(err)
	}
}

// remaining sends a request through the proxy and returns the status and what is left of a rule.
func (r *reloadable) remaining(path string) string {
	r.t.Helper()
	res, _ := r.send(Proxy, http.MethodGet, path, "")
	return fmt.Sprintf("%d %s", res.StatusCode, regexp.MustCompile(`r=\d+`).FindString(res.Header.Get("RateLimit")))
}

func (r *reloadable) expect(steps ...string) {
	r.t.Helper()
	for i := 0; i < len(steps); i += 2 {
		if got := r.remaining(steps[i]); got != steps[i+1] {
			r.t.Errorf("step %d: %s answers %q, want %q", i/2+1, steps[i], got, steps[i+1])
		}
	}
}

// TestWhatAReloadChanges holds docs/server.md to its table of what becomes of state.
func TestWhatAReloadChanges(t *testing.T) {
	t.Parallel()
	rule := func(name, limit string, more ...string) string {
		return fmt.Sprintf("  - {name: %[1]s, match: {path: /%[1]s/**}, key: [client_ip], limit: {%s}%s}\n", name, limit, strings.Join(more, ""))
	}
	bucket := func(burst int) string { return fmt.Sprintf("algorithm: token_bucket, rate: 1/h, burst: %d", burst) }
	r := reloading(t, free+"rules:\n"+
		rule("same", bucket(9))+rule("less", bucket(9))+rule("more", bucket(9))+rule("other", bucket(9))+
		rule("gone", bucket(9))+rule("shade", bucket(1))+rule("old", bucket(9)))
	for range 3 {
		for _, name := range []string{"same", "less", "more", "other", "gone", "old"} {
			r.status(Proxy, "/"+name)
		}
	}
	r.expect("/same", "200 r=5", "/shade", "200 r=0", "/shade", "429 r=0")

	r.write(free + "default: allow\nrules:\n" +
		rule("fresh", bucket(2)) + rule("new", bucket(9)) + rule("shade", bucket(1), ", shadow: true") + rule("less", bucket(4)) +
		rule("more", bucket(20)) + rule("other", "algorithm: fixed_window, rate: 9/w") + rule("same", bucket(9), ", when_limited: {status: 503}"))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.expect(
		"/same", "200 r=4", // goes on, at another position and with another answer
		"/less", "200 r=0", // 3 were used: of 4, one is left
		"/more", "200 r=16", // 3 were used: of 20, 17 are left, and one is taken
		"/other", "200 r=8", // another algorithm starts fresh,
		"/new", "200 r=8", // as does another name
		"/fresh", "200 r=1",
		"/gone", "200 ", "/shade", "200 ",
	)
	if got := r.figure(`sluice_decisions_total{outcome="allowed",rule="same"}`); got != "5" {
		t.Errorf("the figures of a rule that stays: %s", got)
	}
	if got := r.figure(`sluice_decisions_total{outcome="allowed",rule="gone"}`); got == "3" {
		t.Errorf("the figures of a rule that is gone: %s", got)
	}

	r.write(free + "rules:\n" + rule("gone", bucket(9)) + rule("same", bucket(9)) + rule("other", bucket(9)))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	// Used units are not forgotten meanwhile, and changing an algorithm back finds them.
	r.expect("/gone", "200 r=5", "/same", "200 r=3", "/other", "200 r=5")
	if log := r.log.String(); strings.Count(log, `msg="the configuration was reloaded" changed=rules rules=`) != 2 {
		t.Errorf("the log has not both:\n%s", log)
	}
}

// The log of a reload names the files of lists and tables that have changed.
func TestReloadsNameChangedTables(t *testing.T) {
	t.Parallel()
	table := filepath.Join(t.TempDir(), "blocked.txt")
	write := func(text string) {
		if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.1\n")
	r := reloading(t, free+"rules: [{name: a, key: client_ip, deny: {client_ip_file: "+table+"}, limit: {algorithm: fixed_window, rate: 9/d}}]\n")
	write("192.0.2.1\n127.0.0.1\n")
	for _, want := range []string{"changed=" + table + " rules=1", `changed="" rules=1`} {
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
		if log := r.log.String(); !strings.Contains(log, `msg="the configuration was reloaded" `+want) {
			t.Errorf("no %s in the log:\n%s", want, log)
		}
	}
	r.expect("/", "403 ")
}

// Limits of a rule go by their names, and limits without names by their number; a ban goes on as long as its
// rule has one, and no longer than the rule bans.
func TestWhatAReloadDoesToSeveralLimitsAndBans(t *testing.T) {
	t.Parallel()
	rule := func(limits, more string) string {
		return free + "rules: [{name: a, key: [client_ip], limits: [" + limits + "]" + more + "}]\n"
	}
	const nine, ten, second = "{algorithm: fixed_window, rate: 9/w}", "{algorithm: fixed_window, rate: 10/w}", "{algorithm: token_bucket, rate: 1/s, burst: 1}"
	r := reloading(t, rule(nine+", {name: n, algorithm: fixed_window, rate: 20/w}", ""))
	r.expect("/", "200 r=8", "/", "200 r=7")
	load := func(text string) {
		t.Helper()
		r.write(text)
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	load(rule("{name: n, algorithm: fixed_window, rate: 5/w}, "+ten, ""))
	r.expect("/", "200 r=2") // of 5, three are used: it goes by its name
	load(rule(second+", {name: n, algorithm: fixed_window, rate: 50/w}, "+ten, ", ban: {after: 1, for: 1h}"))
	eventually(t, "a ban", func() bool {
		res, _ := r.send(Proxy, http.MethodGet, "/", "")
		return res.StatusCode == http.StatusTooManyRequests && len(res.Header.Get("Retry-After")) == len("3600")
	})
	load(rule(second+", {name: n, algorithm: fixed_window, rate: 50/w}, "+ten, ", ban: {after: 100, for: 1m}"))
	if res, _ := r.send(Proxy, http.MethodGet, "/", ""); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "60" {
		t.Errorf("after other terms of the ban: %d, %s", res.StatusCode, res.Header.Get("Retry-After"))
	}
	load(rule(second, ""))
	eventually(t, "the end of the ban", func() bool { return r.status(Proxy, "/") == http.StatusOK })
}

// A configuration with a mistake changes nothing, and that can be seen.
func TestARefusedConfigurationChangesNothing(t *testing.T) {
	good := free + "rules:\n  - {name: a, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h, burst: 9}}\n"
	r := reloading(t, good)
	r.expect("/", "200 r=8")
	if got := r.figure("sluice_config_last_reload_successful"); got != "1" {
		t.Errorf("after the start: %s", got)
	}
	since := r.figure("sluice_config_last_reload_success_timestamp_seconds")
	if n, err := strconv.ParseFloat(since, 64); err != nil || time.Since(time.UnixMilli(int64(n*1000))).Abs() > time.Minute {
		t.Errorf("the time of the start: %s, %v", since, err)
	}

	for i, c := range []struct {
		text, log, ready string
	}{
		{
			free + "default: deny\nrules:\n  - {name: a, key: [client_ipp], limit: {algorithm: token_bucket, rate: 1/x}}\n",
			`rules[0].key[0]: \"client_ipp\" is not a part of a key; did you mean \"client_ip\"?`, "test.yaml:5:21: a mistake, and 1 more",
		},
		{"\tversion: 1", "this line is indented with a tab", "test.yaml:1:1: a mistake"},
		{
			strings.Replace(good, "127.0.0.1:0", "127.0.0.1:1", 1) + "default: deny\nstore: {memory: {max_size: 1MiB}}\nadmin: {token: secretsecretsecret}\n",
			"store.memory.max_size, listen.proxy.address, admin.token cannot change while the server runs",
			"restart the server to change store.memory.max_size, listen.proxy.address, admin.token",
		},
		{"", "the file is empty", "a mistake"},
	} {
		r.write(c.text)
		if err := r.Reload(); err == nil {
			t.Fatalf("%d: it was applied", i)
		}
		if got := r.figure("sluice_config_last_reload_successful"); got != "0" {
			t.Errorf("%d: it counts as applied: %s", i, got)
		}
		if got := r.figure(`sluice_config_reloads_total{outcome="refused"}`); got != strconv.Itoa(i+1) {
			t.Errorf("%d: %s were refused", i, got)
		}
		if got := r.figure("sluice_config_last_reload_success_timestamp_seconds"); got != since {
			t.Errorf("%d: the one in force is of %s, and was of %s", i, got, since)
		}
		log := r.log.String()
		if !strings.Contains(log, c.log) || !strings.Contains(log, `level=ERROR msg="the configuration is refused, and the previous one stays"`) {
			t.Errorf("%d: the log does not say why:\n%s", i, log)
		}
		if place := regexp.MustCompile(`test\.yaml:\d+:\d+`); i == 0 && len(place.FindAllString(log, -1)) != 2 {
			t.Errorf("the log does not have the position of both mistakes:\n%s", log)
		}
		res, text := r.send(Admin, http.MethodGet, "/readyz", "")
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(text, "ok\nconfig: refused since ") || !strings.Contains(text, c.ready) {
			t.Errorf("%d: /readyz answers %d %q", i, res.StatusCode, text)
		}
		if strings.Contains(text+log, "secretsecret") || strings.Contains(text, "client_ipp") || strings.Contains(text, filepath.Dir(r.path)) {
			t.Errorf("%d: the text contains too much:\n%s\n%s", i, text, log)
		}
		r.expect("/", fmt.Sprintf("200 r=%d", 7-i))
	}

	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if _, text := r.send(Admin, http.MethodGet, "/readyz", ""); !strings.Contains(text, "it cannot be read") {
		t.Errorf("/readyz answers %q", text)
	}
	r.write(good)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, text := r.send(Admin, http.MethodGet, "/readyz", ""); text != "ok\n" {
		t.Errorf("/readyz answers %q when all is well again", text)
	}
	if got := r.figure("sluice_config_last_reload_successful") + r.figure(`sluice_config_reloads_total{outcome="applied"}`); got != "12" {
		t.Errorf("when all is well again: %s", got)
	}
	r.expect("/", "200 r=3")
}

func TestReloadNeedsAFileAndAServerThatStays(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+roomy), nil)
	if err := r.Reload(); !errors.Is(err, ErrNoFile) {
		t.Errorf("without Load: %v", err)
	}
	r.o.Load = func() (*config.File, error) { return r.o.File, nil }
	r.draining.Store(true)
	if err := r.Reload(); !errors.Is(err, errDraining) {
		t.Errorf("while it drains: %v", err)
	}
}

// The settings that can change are settings, and include all settings of a policy.
func TestLiveSettingsExist(t *testing.T) {
	t.Parallel()
	var schema struct {
		Definitions struct {
			File struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(policyfile.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, name := range live {
		if schema.Definitions.File.Properties[name] == nil {
			t.Errorf("%s is not a setting", name)
		}
	}
	fixed := []string{"store", "listen", "upstream", "headers", "header_names", "jitter", "http", "admin", "api", "access_log", "tracing", "audit", "log", "scale_out"}
	for name := range schema.Definitions.File.Properties {
		if !slices.Contains(live, name) && !slices.Contains(fixed, name) {
			t.Errorf("%s is neither among the settings that can change nor among the settings that take a restart: see reload.go and docs/server.md", name)
		}
	}
}

// What becomes of requests while the store is down changes with the rules.
func TestReloadChangesWhatStandsInForTheStore(t *testing.T) {
	t.Parallel()
	store := fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", unusedAddress(t))
	rule := "rules:\n  - {name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 4/h}}\n"
	r := reloading(t, free+store+rule)
	if got := r.status(Proxy, "/"); got != http.StatusOK {
		t.Errorf("answers %d", got)
	}
	if err := r.Ready(); err != nil {
		t.Errorf("Ready = %v", err)
	}
	r.write(free + store + rule + "on_store_error: deny\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := r.status(Proxy, "/"); got != http.StatusServiceUnavailable {
		t.Errorf("answers %d after the reload", got)
	}
	if err := r.Ready(); !errors.Is(err, remote.ErrDenies) {
		t.Errorf("Ready = %v, and every rule denies", err)
	}
}

// TestReloadsUnderLoad loads configurations, of which every tenth has a mistake, while
// requests come: none fails, no key gets more than its limit, and nothing is left behind. With SLUICE_SOAK
// there are up to a thousand.
func TestReloadsUnderLoad(t *testing.T) {
	const clients = 4
	reloads := min(soak.Times(t, 20), 1000)
	// One rule stays, one has other numbers each time, and the others come and go.
	text := func(i int) string {
		s := free + "rules:\n" +
			"  - {name: stays, match: {path: /**}, key: [client_ip], limit: {algorithm: token_bucket, rate: 1000/s, burst: 100000}}\n" +
			"  - {name: few, match: {path: /few}, key: [client_ip], limit: {algorithm: fixed_window, rate: 50/w}}\n" +
			fmt.Sprintf("  - {name: moves, key: [path], limit: {algorithm: sliding_window, rate: %d/h}}\n", 1_000_000+i)
		for j := range 10 {
			s += fmt.Sprintf("  - {name: 'r%d-%d', key: [client_ip, path], limit: {algorithm: token_bucket, rate: 1000000/s}}\n", i, j)
		}
		if i%10 == 9 {
			s += "  - {name: broken}\n"
		}
		return s
	}
	r := reloading(t, text(0))
	var stop atomic.Bool
	var sent, few atomic.Int64
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for n := 0; !stop.Load(); n++ {
				path := fmt.Sprintf("/%d", n%1000)
				if n%10 == i {
					path = "/few"
				}
				res, err := r.client.Get(r.URL(Proxy) + path)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil {
					t.Error(err)
					return
				}
				switch {
				case path == "/few" && res.StatusCode == http.StatusOK:
					few.Add(1)
				case path == "/few" && res.StatusCode == http.StatusTooManyRequests:
				case res.StatusCode != http.StatusOK:
					t.Errorf("%s answers %d %s", path, res.StatusCode, body)
					return
				}
				sent.Add(1)
			}
		})
	}
	var before uint64
	var goroutines int
	began := time.Now()
	for i := 1; i <= reloads; i++ {
		r.write(text(i))
		if err := r.Reload(); (err != nil) != (i%10 == 9) {
			t.Errorf("reload %d: %v", i, err)
		}
		if i == reloads/10 {
			before, goroutines = heap(), runtime.NumGoroutine()
		}
	}
	took := time.Since(began)
	eventually(t, "a thousand requests", func() bool { return sent.Load() >= 1000 })
	stop.Store(true)
	running.Wait()
	if took > time.Minute {
		t.Errorf("%d reloads took %v", reloads, took)
	}
	if got := few.Load(); got != 50 {
		t.Errorf("%d requests passed a limit of 50 in a week", got)
	}
	if got := runtime.NumGoroutine(); got > goroutines+2*clients {
		t.Errorf("%d goroutines, and %d after a tenth of the reloads", got, goroutines)
	}
	after := heap()
	if grown := int64(after) - int64(before); grown > 16<<20 {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	limits := r.memory().Stats().Limits
	if limits > 2000 { // a thousand reloads bring 10,000
		t.Errorf("the store has %d limits, want 2,000 at most: limits that went away and are full again are forgotten", limits)
	}
	_, figures := r.send(Admin, http.MethodGet, "/metrics", "")
	series := strings.Count(figures, "sluice_decisions_total{")
	if series > 20*10 {
		t.Errorf("there are %d series", series)
	}
	t.Logf("%d reloads in %v, beside %d requests; %d limits, %d series, heap %d KiB after a tenth and %d KiB after all",
		reloads, took.Round(time.Millisecond), sent.Load(), limits, series, before>>10, after>>10)
}

// TestAReloadChecksTheMachine reloads configurations while a file that the server has read is gone. New rules apply. The log
// names what the next start would lack, at its position.
func TestAReloadChecksTheMachine(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := func(burst int) string {
		return fmt.Sprintf("log: {key_secret_file: %s}\nrules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h, burst: %d}}]\n", token, burst)
	}
	r := reloading(t, free+rules(5))
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	r.write(free + rules(9))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.expect("/", "200 r=8")
	at := regexp.MustCompile(`level=WARN msg="the configuration is in force, but a server would not start with it now" error="[^"]*test\.yaml:\d+:\d+: log\.key_secret_file: open [^"]*no such file`)
	if log := r.log.String(); !at.MatchString(log) {
		t.Errorf("the log has no %s:\n%s", at, log)
	}
	r.write(free + rules(9) + "jitter: 3s\n")
	var mistakes reader.Errors
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), "jitter cannot change while the server runs") || !errors.As(err, &mistakes) || mistakes[0].Path != "log.key_secret_file" {
		t.Errorf("a restart would fail, and the reload says %v", err)
	}
	for _, want := range []string{`level=ERROR msg="the configuration is refused, and the previous one stays" error="jitter cannot change`, `stays" error="` + r.path + ":"} {
		if log := r.log.String(); !strings.Contains(log, want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
}

// Whom the server believes changes with a reload: for the key of a client, for marks, and for what the service gets.
func TestReloadChangesWhoIsTrusted(t *testing.T) {
	t.Parallel()
	text := free + "rules:\n  - {name: r, key: [client_ip], match: {marked: false}, limit: {algorithm: token_bucket, rate: 1/h, burst: 9}}\n"
	r := reloading(t, text)
	remaining := func(header ...string) string {
		t.Helper()
		res, _ := r.send(Proxy, http.MethodGet, "/", "", header...)
		return regexp.MustCompile(`r=\d+`).FindString(res.Header.Get("RateLimit"))
	}
	forwarded := func() string {
		t.Helper()
		_, body := r.send(Proxy, http.MethodGet, "/", "", "X-Forwarded-For", "192.0.2.1", "Sluice-Marked", "up")
		return strings.Join(regexp.MustCompile(`(?m)^(X-Forwarded-For|Sluice-Marked): .*$`).FindAllString(body, -1), "; ")
	}
	if a, b := remaining("X-Forwarded-For", "192.0.2.1"), remaining("X-Forwarded-For", "192.0.2.2"); a != "r=8" || b != "r=7" {
		t.Errorf("before, two names of a client have %q and %q left, want one budget", a, b)
	}
	if got := forwarded(); got != "X-Forwarded-For: 127.0.0.1" {
		t.Errorf("before, the service got %q", got)
	}
	r.write(text + "trusted_proxies: 127.0.0.1\ntrust_marks: true\nnear_limit: 50%\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if a, b := remaining("X-Forwarded-For", "192.0.2.1"), remaining("X-Forwarded-For", "192.0.2.2"); a != "r=8" || b != "r=8" {
		t.Errorf("two clients of a trusted proxy have %q and %q left, want budgets of their own", a, b)
	}
	if got := forwarded(); got != "Sluice-Marked: up; X-Forwarded-For: 192.0.2.1, 127.0.0.1" {
		t.Errorf("from a trusted proxy, the service got %q", got)
	}
	if got := remaining("Sluice-Marked", "up"); got != "" {
		t.Errorf("a marked request is limited: %s", got)
	}
	r.write(text)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if a := remaining("X-Forwarded-For", "192.0.2.1", "Sluice-Marked", "up"); a != "r=5" {
		t.Errorf("afterwards, %q is left, want what the peer has left", a)
	}
}

// From the reload on, hits beyond the new part of a limit are near it.
func TestReloadChangesWhatIsNear(t *testing.T) {
	t.Parallel()
	text := strings.Replace(forEnvoy, "rate: 1/d", "rate: 4/d", 1)
	r := reloading(t, text)
	conn := r.dialGRPC(insecure.NewCredentials())
	near := func() string {
		r.shouldLimit(conn, "192.0.2.1")
		return r.figure(`sluice_descriptor_near_limit_total{descriptor="remote_address",domain="edge",rule="per-address"}`)
	}
	if got := near() + near() + near(); got != "000" {
		t.Errorf("up to three of four hits are near the limit: %s", got)
	}
	r.write(text + "near_limit: 50%\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := near(); got != "1" {
		t.Errorf("the hit beyond half of the limit counts %s as near, want 1", got)
	}
}
