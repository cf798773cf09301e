package servers

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// every has a rule for each algorithm, and one with a ban; all deny if the store does
// not decide.
const every = `
on_store_error: deny
rules:
  - {name: bucket, match: {path: /bucket}, key: client_ip, limit: {algorithm: token_bucket, rate: 3/30d}}
  - {name: warm, match: {path: /warm}, key: client_ip, limit: {algorithm: token_bucket, rate: 3/30d, warm_up: 1h}}
  - {name: leaky, match: {path: /leaky}, key: client_ip, limit: {algorithm: leaky_bucket, rate: 3/30d, queue: 2, undelayed: 2}}
  - {name: fixed, match: {path: /fixed}, key: client_ip, limit: {algorithm: fixed_window, rate: 3/30d, starts: first_request}}
  - {name: calendar, match: {path: /calendar}, key: client_ip, limit: {algorithm: fixed_window, rate: 3/30d, calendar: month}}
  - {name: cells, match: {path: /cells}, key: client_ip, limit: {algorithm: sliding_window, rate: 3/30d}}
  - {name: counter, match: {path: /counter}, key: client_ip, limit: {algorithm: sliding_counter, rate: 3/30d}}
  - {name: log, match: {path: /log}, key: client_ip, limit: {algorithm: sliding_log, rate: 3/30d}}
  - {name: leases, match: {path: /leases}, key: client_ip, limit: {algorithm: concurrency, max: 3, ttl: 1h}}
  - name: banned
    match: {path: /banned}
    key: client_ip
    limits: [{algorithm: token_bucket, rate: 3/30d}, {algorithm: sliding_log, rate: 9/30d}]
    ban: {after: 1, for: 1h}
`

// exercise requests more of each rule of a server than there is, and ends what it took
// where that can be.
func exercise(t *testing.T, s *server) {
	t.Helper()
	for _, path := range []string{"/bucket", "/warm", "/leaky", "/fixed", "/calendar", "/cells", "/counter", "/log", "/leases", "/banned"} {
		allowed := 0
		var tokens []string
		for range 5 {
			_, text := s.request("api", http.MethodPost, "/v1/reserve", fmt.Sprintf(`{"method": "GET", "path": %q, "client_ip": "192.0.2.1"}`, path))
			if strings.Contains(text, `"degraded"`) || strings.Contains(strings.ReplaceAll(text, "no-store", ""), "store") {
				t.Fatalf("%s: the store did not decide: %s", path, text)
			}
			if _, rest, ok := strings.Cut(text, `"token":"`); ok {
				allowed++
				token, _, _ := strings.Cut(rest, `"`)
				tokens = append(tokens, token)
			}
		}
		if path == "/warm" && allowed > 0 && allowed <= 3 {
			allowed = 3 // it is cold
		}
		if allowed != 3 {
			t.Errorf("%s: %d of 5 requests were admitted, want 3", path, allowed)
		}
		for i, token := range tokens {
			call, body := "/v1/cancel", fmt.Sprintf(`{"token": %q}`, token)
			if i == 0 {
				call, body = "/v1/settle", fmt.Sprintf(`{"token": %q, "cost": 2}`, token)
			}
			if status, text := s.request("api", http.MethodPost, call, body); status != http.StatusOK {
				t.Errorf("%s: %s answers %d %s", path, call, status, text)
			}
		}
		if status, text := s.request("admin", http.MethodPost, "/v1/reset", fmt.Sprintf(`{"method": "GET", "path": %q, "client_ip": "192.0.2.1"}`, path)); status != http.StatusOK {
			t.Errorf("%s: /v1/reset answers %d %s", path, status, text)
		}
	}
	if got := s.figure(`sluice_store_calls_total{outcome="failed"}`); got != "0" {
		t.Errorf("%s calls of the store failed", got)
	}
}

func TestRedisAtASocket(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	exercise(t, serve(t, "store: {redis: {socket: '"+r.Socket+"', database: 3}}\n"+every))
	if got, err := r.Text(t.Context(), "INFO", "keyspace"); err != nil || strings.Contains(got, "db0") {
		t.Errorf("keys in database 0: %q, %v", got, err)
	}
}

// With TLS the server is reached under a certificate that is trusted, and under no other.
func TestRedisOverTLS(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.TLS())
	ca := certificate(t, r)
	exercise(t, serve(t, fmt.Sprintf("store: {redis: {addresses: ['%s'], tls: {ca: %s, server_name: localhost}}}\n", r.TLSAddr(), ca)+every))

	for settings, want := range map[string]string{
		"tls: true": "certificate signed by unknown authority",
		"tls: {ca: " + ca + ", server_name: redis.example.com}": "redis.example.com",
	} {
		if text := refused(t, fmt.Sprintf("store: {redis: {addresses: ['%s'], %s}}\n", r.TLSAddr(), settings)); !strings.Contains(text, want) {
			t.Errorf("with %s, the server ended with: %s", settings, text)
		}
	}
}

// A server that speaks TLS where the configuration does not, or the other way round, says
// nothing that could be understood. The error still names the fault, and the server does not start.
func TestTLSOnOneSideOnly(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.TLS())
	locked := redistest.Start(t, redistest.TLS(), redistest.ACL("user default off"))
	node := redistest.StartCluster(t, 1, 0, redistest.TLS()).Nodes[0]
	tls := "tls: {ca: " + certificate(t, r) + ", server_name: localhost}"
	const with, without = " speaks TLS there, but store.redis.tls is not set; set tls: true", " does not speak TLS there, but store.redis.tls is set;"
	for name, x := range map[string]struct{ address, settings, want string }{
		"with TLS, to one without":                  {r.Addr(), "addresses: ['%s'], " + tls, without},
		"without, to one with TLS":                  {r.TLSAddr(), "addresses: ['%s']", with},
		"with TLS, to one with a password":          {locked.Addr(), "addresses: ['%s'], " + tls, without},
		"without, to one with a password":           {locked.TLSAddr(), "addresses: ['%s']", with},
		"with TLS, to a node of a cluster":          {node.Addr(), "addresses: ['%s'], cluster: true, " + tls, without},
		"without, to a node of a cluster":           {node.TLSAddr(), "addresses: ['%s'], cluster: true", with},
		"with TLS, to sentinels that speak without": {r.Addr(), "sentinel: {master: main, addresses: ['%s']}, " + tls, without},
		"without, to sentinels that speak TLS":      {r.TLSAddr(), "sentinel: {master: main, addresses: ['%s']}", with},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := "store: {redis: {" + fmt.Sprintf(x.settings, x.address) + "}}\n" + every
			if text := refused(t, config); !strings.Contains(text, x.address+x.want) {
				t.Errorf("serve says %s", text)
			}
			if text, err := validate(t, config); err == nil || !strings.Contains(text, x.address+x.want) {
				t.Errorf("validate says %v %s", err, text)
			}
		})
	}
}

// certificate returns the file of a server's certificate.
func certificate(t *testing.T, r *redistest.Server) string {
	t.Helper()
	dir, err := r.Do(t.Context(), "CONFIG", "GET", "tls-cert-file")
	if err != nil {
		t.Fatal(err)
	}
	pair, ok := dir.([]any)
	if !ok || len(pair) != 2 {
		t.Fatalf("CONFIG GET replies %v", dir)
	}
	return fmt.Sprint(pair[1])
}

// A server reaches all masters of a cluster, also by the address of one.
func TestServerReachesAllMasters(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	list := "'" + strings.Join(c.Addrs(), "', '") + "'"
	exercise(t, serve(t, "store: {redis: {addresses: ["+list+"], cluster: true}}\n"+every))
	// One address leads to the others.
	s := serve(t, "store: {redis: {addresses: ['"+c.Addrs()[0]+"'], cluster: true}}\n"+every)
	for n := range 30 {
		if got := s.mustCheck("/bucket", fmt.Sprintf("192.0.2.%d", n)); !got.Allowed || got.Degraded {
			t.Errorf("client %d: %+v", n, got)
		}
	}
	// A rule's limits of one key, and all that has the same tenant, are in one slot.
	tenants := serve(t, "store: {redis: {addresses: ["+list+`], cluster: true, tenant: 1, prefix: tenants}}
rules:
  - {name: a, key: ["header:X-Tenant", client_ip], limit: {algorithm: token_bucket, rate: 3/30d}}
  - {name: b, key: ["header:X-Tenant"], limit: {algorithm: token_bucket, rate: 9/30d}}
`)
	status, text := tenants.request("api", http.MethodPost, "/v1/check", `{"method": "GET", "path": "/", "client_ip": "192.0.2.1", "headers": {"X-Tenant": "acme"}}`)
	if status != http.StatusOK || strings.Contains(text, "degraded") {
		t.Errorf("the store should decide for a tenant: %d %s", status, text)
	}
	holders := 0
	for _, node := range c.Nodes {
		keys, err := node.Do(t.Context(), "KEYS", "tenants{[^%]*")
		if err != nil {
			t.Fatal(err)
		}
		if list, _ := keys.([]any); len(list) > 0 {
			holders++
			if len(list) != 2 {
				t.Errorf("a node holds %v", keys)
			}
		}
	}
	if holders != 1 {
		t.Errorf("%d nodes hold the states of one tenant", holders)
	}
}

// A server finds the master by the sentinels, and the next one after it was lost.
func TestServerFollowsTheSentinels(t *testing.T) {
	t.Parallel()
	sentinels := redistest.StartSentinels(t)
	list := "'" + strings.Join(sentinels.Addrs(), "', '") + "'"
	store := "store: {redis: {sentinel: {master: %s, addresses: [" + list + "]}}}\n"
	s := serve(t, fmt.Sprintf(store, redistest.SentinelName)+every)
	exercise(t, s)
	if text := refused(t, fmt.Sprintf(store, "nobody")); !strings.Contains(text, `the sentinels know no master called "nobody"`) {
		t.Errorf("an unknown name of a master was refused with: %s", text)
	}
	old, err := sentinels.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := sentinels.WaitFailover(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	took := process.Eventually(t, "recovery", func() bool {
		return s.storeIs("ok") && s.mustCheck("/bucket", "192.0.2.9").Allowed
	})
	t.Logf("recovered %v after the failover", took)
}

// The user of docs/redis.md may do what limits need, and what is written is hashed.
func TestTheUserOfTheDocumentationSuffices(t *testing.T) {
	t.Parallel()
	rule := aclRule(t)
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	password := hex.EncodeToString(secret)
	r := redistest.Start(t, redistest.ACL("user default off", strings.Replace(rule, ">CHANGE-ME", ">"+password, 1)))
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := fmt.Sprintf("store: {redis: {addresses: ['%s'], user: sluice, %%s}}\n", r.Addr())
	s := serve(t, fmt.Sprintf(store, "password_file: "+file+", hash_keys: {secret_env: KEY_SECRET}")+every, "KEY_SECRET="+password)
	exercise(t, s)
	s.mustCheck("/bucket", "192.0.2.77")
	dump, err := r.Do(t.Context(), "KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(dump); strings.Contains(text, "192.0.2") || !strings.Contains(text, "sluice{%!") {
		t.Errorf("the keys are not hashed: %s", text)
	}
	denials(t, r)

	for _, x := range []struct{ settings, env, want string }{
		{"password_env: REDIS_PASSWORD", "REDIS_PASSWORD=wrong", "WRONGPASS"},
		{"password_env: REDIS_PASSWORD", "REDIS_PASSWORD=", "REDIS_PASSWORD is not set"},
		{"password_env: REDIS_PASSWORD, prefix: other", "REDIS_PASSWORD=" + password, "NOPERM"},
	} {
		if text := refused(t, fmt.Sprintf(store, x.settings)+every, x.env); !strings.Contains(text, x.want) || strings.Contains(text, password) {
			t.Errorf("with %s, want %s without the password: %s", x.settings, x.want, text)
		}
	}
	if text := refused(t, fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", r.Addr())); !strings.Contains(text, "NOAUTH") {
		t.Errorf("without a user: %s", text)
	}
}

// aclRule returns the rule of docs/redis.md, in a line.
func aclRule(t *testing.T) string {
	t.Helper()
	for _, b := range blocks(t, "redis.md", "") {
		if strings.HasPrefix(b.text, "user sluice ") {
			return strings.Join(strings.Fields(strings.ReplaceAll(b.text, "\\\n", " ")), " ")
		}
	}
	t.Fatal("docs/redis.md has no rule for an ACL")
	return ""
}

// The rule allows what the scripts call, and nothing else.
func TestTheRuleIsThatOfTheScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "redisstore", "scripts", "*.lua"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	called := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`redis\.p?call\(['"](\w+)['"]`).FindAllSubmatch(text, -1) {
			called[strings.ToLower(string(m[1]))] = true
		}
	}
	// What the client sends.
	for _, command := range []string{"hello", "ping", "select", "info", "scan", "evalsha", "eval", "role", "cluster|slots", "cluster|shards", "asking"} {
		called[command] = true
	}
	allowed := map[string]bool{}
	for word := range strings.FieldsSeq(aclRule(t)) {
		if command, ok := strings.CutPrefix(word, "+"); ok {
			allowed[command] = true
		}
	}
	if !maps.Equal(called, allowed) {
		t.Errorf("the rule allows\n%v, and what is sent is\n%v", slices.Sorted(maps.Keys(allowed)), slices.Sorted(maps.Keys(called)))
	}
}

// The rule is enough for clusters and under sentinels.
func TestLeastPrivilegeElsewhere(t *testing.T) {
	t.Parallel()
	acl := redistest.ACL("user default off", strings.Replace(aclRule(t), ">CHANGE-ME", ">secret", 1))
	c := redistest.StartCluster(t, 3, 0, acl)
	exercise(t, serve(t, "store: {redis: {addresses: ['"+c.Addrs()[0]+"'], cluster: true, user: sluice, password_env: REDIS_PASSWORD}}\n"+every, "REDIS_PASSWORD=secret"))
	denials(t, c.Nodes...)
	sentinels := redistest.StartSentinels(t, acl)
	exercise(t, serve(t, "store: {redis: {sentinel: {master: "+redistest.SentinelName+", addresses: ['"+sentinels.Addrs()[0]+"']}, user: sluice, password_env: REDIS_PASSWORD}}\n"+every, "REDIS_PASSWORD=secret"))
	denials(t, sentinels.Nodes...)
}

// denials reports what the user of the rule was not allowed.
func denials(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, r := range servers {
		denied, err := r.Do(t.Context(), "ACL", "LOG")
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(denied); strings.Contains(text, "sluice") {
			t.Errorf("the user wanted to do more than it may: %v", denied)
		}
	}
}

// Keys look as docs/redis.md says.
func TestKeysOfThePage(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := serve(t, fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", r.Addr())+`
rules:
  - name: per-client
    key: client_ip
    limits: [{algorithm: token_bucket, rate: 1/30d}, {algorithm: fixed_window, rate: 9/30d}]
    ban: {after: 1, for: 1h}
`)
	if status, text := s.request("api", http.MethodPost, "/v1/reserve", `{"path": "/", "client_ip": "192.0.2.7", "give_back": true}`); status != http.StatusOK || !strings.Contains(text, `"allowed":true`) {
		t.Fatalf("a reservation that gives back is answered %d %s, want it allowed", status, text)
	}
	if got := s.mustCheck("/", "192.0.2.7"); got.Allowed {
		t.Errorf("the client is allowed %+v, want it banned", got)
	}
	reply, err := r.Do(t.Context(), "KEYS", "sluice{[^%]*") // the others are about the server itself
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, key := range reply.([]any) { //nolint:forcetypeassert // KEYS replies a list
		got = append(got, fmt.Sprint(key))
	}
	for line := range strings.Lines(blocks(t, "redis.md", "What is stored")[0].text) {
		want = append(want, strings.Fields(line)[0])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the keys are %q, and %q in docs/redis.md", got, want)
	}
}

// What can never work does not start.
func TestRefusesServersThatDoNotFit(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t)
	replica := redistest.Start(t, redistest.Config(fmt.Sprintf("replicaof 127.0.0.1 %d", plain.Port)))
	node := redistest.Start(t, redistest.Config("cluster-enabled yes"))
	little := redistest.Start(t, redistest.ACL("user default on nopass ~* +@all -zadd"))
	for name, x := range map[string]struct{ settings, want string }{
		"replica":                  {"addresses: ['" + replica.Addr() + "']", "is a replica"},
		"node":                     {"addresses: ['" + node.Addr() + "']", "set cluster: true"},
		"no node":                  {"addresses: ['" + plain.Addr() + "'], cluster: true", "remove cluster: true"},
		"no nodes":                 {"addresses: ['" + plain.Addr() + "', '" + replica.Addr() + "'], cluster: true", "remove cluster: true"},
		"no permission in scripts": {"addresses: ['" + little.Addr() + "']", "the user lacks a permission"},
		"no such database":         {"addresses: ['" + plain.Addr() + "'], database: 99", "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := refused(t, "store: {redis: {"+x.settings+"}}\n")
			if !strings.Contains(text, x.want) || !strings.Contains(text, "store.redis: ") {
				t.Errorf("want a refusal with %q at store.redis, got %s", x.want, text)
			}
		})
	}
}

// What works now and will not always is said at the start.
func TestWarnsOfEviction(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Config("maxmemory 100mb", "maxmemory-policy allkeys-lru"))
	s := serve(t, storeAt(r.Addr()))
	process.Eventually(t, "a warning", func() bool {
		log := s.Log()
		return strings.Contains(log, "level=WARN") && strings.Contains(log, "allkeys-lru")
	})
}

// The check calls every master of a cluster, and names the master that it warns about.
func TestWarnsOfEvictionOnOneMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	last := c.Nodes[2]
	if _, err := last.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru"); err != nil {
		t.Fatal(err)
	}
	settings := "upstream: echo\nstore: {redis: {addresses: ['" + c.Nodes[0].Addr() + "'], cluster: true}}\n"
	want := "the master " + last.Addr() + ": maxmemory-policy is allkeys-lru"
	s := serve(t, settings+every)
	process.Eventually(t, "a warning", func() bool { return strings.Contains(s.Log(), want) })
	if text, err := validate(t, settings+every); err != nil || strings.Count(text, "warning: ") != 1 || !strings.Contains(text, "warning: "+want) {
		t.Errorf("validate says %v\n%s", err, text)
	}
}

// A password that changes while the server runs is read again from its file when the store
// refuses what that held.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.ACL("user default off", strings.Replace(aclRule(t), ">CHANGE-ME", ">first", 1)))
	file := filepath.Join(t.TempDir(), "password")
	write(t, file, "first")
	s := serve(t, fmt.Sprintf("store: {redis: {addresses: ['%s'], user: sluice, password_file: %s}}\n", r.Addr(), file)+every)
	do(t, r, "ACL", "SETUSER", "sluice", "resetpass", ">second")
	mends(t, s, r, func() { write(t, file, "second") })
	if log := s.Log(); strings.Contains(log, "first") || strings.Contains(log, "second") {
		t.Errorf("the log contains a password:\n%s", log)
	}
}

// So are the certificates to trust.
func TestCertificateChanges(t *testing.T) {
	t.Parallel()
	r, other := redistest.Start(t, redistest.TLS()), redistest.Start(t, redistest.TLS())
	file := filepath.Join(t.TempDir(), "ca")
	trust := func(r *redistest.Server) {
		text, err := os.ReadFile(certificate(t, r))
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
	}
	trust(r)
	s := serve(t, fmt.Sprintf("store: {redis: {addresses: ['%s'], tls: {ca: %s, server_name: localhost}}}\n", r.TLSAddr(), file)+every)
	do(t, r, "CONFIG", "SET", "tls-cert-file", certificate(t, other), "tls-key-file", strings.TrimSuffix(certificate(t, other), "crt")+"key")
	mends(t, s, r, func() { trust(other) })
}

// mends holds a server to lose a store that refuses it from now on, and to find it again
// after something.
func mends(t *testing.T, s *server, r *redistest.Server, mend func()) {
	t.Helper()
	process.Eventually(t, "a decision of the store", func() bool { return s.storeIs("ok") && s.mustCheck("/bucket", "192.0.2.1").Allowed })
	do(t, r, "CLIENT", "KILL", "TYPE", "normal")
	process.Eventually(t, "a refusal", func() bool { return s.storeIs("degraded") })
	mend()
	process.Eventually(t, "recovery", func() bool { return s.storeIs("ok") && s.mustCheck("/bucket", "192.0.2.2").Allowed })
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, r *redistest.Server, command ...string) {
	t.Helper()
	if _, err := r.Do(t.Context(), command...); err != nil {
		t.Fatal(err)
	}
}
