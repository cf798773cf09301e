package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/listen/web"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"

	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/server/internal/secret"
	"github.com/sluicehq/sluice/server/internal/store/local"
)

// TestParseAll reads a file that gives every setting.
func TestParseAll(t *testing.T) {
	f, err := Load("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wait, present := 2*time.Second, true
	want := &File{
		Version: 1,
		Store:   Store{Memory: local.Settings{MaxSize: 64 << 20, WhenFull: "deny", File: "states.db", SaveEvery: 5 * time.Second}},
		Listen: Listen{
			Proxy: accept.Listener{Address: "0.0.0.0:443", TLS: &accept.TLS{Cert: "proxy.pem", Key: "proxy.key", MinVersion: "1.3", ClientCA: "clients.pem"}},
			API:   accept.Listener{},
			Admin: accept.Listener{Address: "127.0.0.1:9090"},
			Auth:  accept.Listener{Address: "unix:/run/sluice/auth.sock", Mode: "0666"},
			GRPC:  accept.Listener{Address: "127.0.0.1:8083", ProxyProtocol: true},
			JSON:  accept.Listener{Address: "127.0.0.1:8085"},
			SPOE:  accept.Listener{Address: "127.0.0.1:8084"},
			RESP:  accept.Listener{Address: "127.0.0.1:6380"},
		},
		Upstream: proxy.Upstream{
			URL: "https://127.0.0.1:3000/base", ConnectTimeout: time.Second, ResponseTimeout: 0, IdleTimeout: time.Minute,
			MaxConnections: 100, PreserveHost: false, Upgrades: []string{"websocket", "IRC/6.9"}, MethodOverride: true,
			TLS: secret.TLS{CA: "ca.pem", Cert: "client.pem", Key: "client.key", ServerName: "up.example.com", Insecure: true},
		},
		TrustedProxies: []Proxy{
			{Network: netip.MustParsePrefix("10.0.0.0/8")},
			{Network: netip.MustParsePrefix("192.0.2.7/32")},
			{Network: netip.MustParsePrefix("2001:db8::/32")},
			{Network: netip.MustParsePrefix("172.16.0.0/12")},
			{Network: netip.MustParsePrefix("198.51.100.1/32")},
			{Unix: true},
		},
		TrustMarks:  true,
		Headers:     HeadersXRateLimit,
		HeaderNames: HeaderNames{Limit: "X-Limit", Remaining: "X-Remaining", Reset: "X-Reset"},
		NearLimit:   0.9,
		Jitter:      time.Second,
		HTTP: web.Settings{
			MaxHeaderSize: 32 << 10, MaxBodySize: 2 << 20, MaxProxyBodySize: 1e9, HeaderTimeout: 5 * time.Second,
			ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			MinBodyRate: 4 << 10, BodyGrace: 10 * time.Second, BodyTimeout: 10 * time.Minute, MaxConnections: 1000, MaxConnectionsPerClient: 100,
		},
		Admin:     access.Admin{TokenFile: "/run/secrets/token"},
		AccessLog: accesslog.Settings{File: "/var/log/sluice/access.log", Format: "combined", Sample: 0.1},
		Tracing:   tracing.Settings{Endpoint: "http://127.0.0.1:4318", Sample: 0.05},
		Audit:     audit.Settings{File: "/var/log/sluice/audit.log"},
		Log:       telemetry.Settings{Level: "debug", Format: "json", Sample: 0, KeySecretFile: "/run/secrets/log"},
		Drain:     accept.Drain{Delay: 5 * time.Second}, DrainTimeout: 10 * time.Second,
		File: rules.File{
			IPv6Prefix: 56, Default: policy.Deny, OnStoreError: sluice.FallbackDeny, UnknownPlan: "rule",
			Paths: rules.Paths{IgnoreCase: true, EncodedSlash: "decode", StripParams: true},
			Rules: []rules.Rule{
				{
					Name: "all",
					Match: rules.Match{
						Path: []string{"/api/**", "/users/{id}"}, Method: []string{"GET", "POST"}, Host: []string{"api.example.com", "*.example.com"},
						Header: map[string]rules.ValueMatch{
							"X-Any": {Is: []string{"*"}}, "X-Plan": {Is: []string{"free", "trial"}}, "X-One": {Is: []string{"1"}},
							"User-Agent": {Prefix: []string{"curl/"}}, "X-There": {Present: &present},
						},
					},
					Key: []rules.KeyPart{
						{Part: "client_ip", IPv6Prefix: 48},
						{Part: "header:X-User", OnMissing: policy.MissingDeny},
						{Part: "cookie:session"},
						{Part: "query:q", OnRepeated: policy.RepeatedLast},
						{Part: "path"},
						{Part: "route"},
						{Part: "method"},
						{Part: "host"},
						{Part: "global"},
						{Part: "constant:eu"},
					},
					Limits: []rules.Limit{
						{Algorithm: "token_bucket", Rate: sluice.PerMinute(100), Burst: 20, Debt: 5, WarmUp: 10 * time.Second, ColdFactor: 4},
						{Name: "queue", Algorithm: "leaky_bucket", Rate: sluice.PerSecond(50), Queue: 20, Undelayed: 5},
						{Algorithm: "fixed_window", Rate: sluice.PerHour(1000), Starts: "first_request", CountDenied: true},
						{Algorithm: "fixed_window", Rate: sluice.Per(10_000, 30*24*time.Hour), Calendar: "month", Zone: "Europe/Berlin"},
						{Algorithm: "sliding_window", Rate: sluice.PerMinute(100), Cells: 12, CountDenied: true},
						{Algorithm: "sliding_counter", Rate: sluice.PerMinute(100), CountDenied: true},
						{Algorithm: "sliding_log", Rate: sluice.PerMinute(100), MinInterval: 100 * time.Millisecond, CountDenied: true},
						{Algorithm: "concurrency", Max: 10, Queue: 5, TTL: 30 * time.Second, Latency: 50 * time.Millisecond},
					},
					Cost: rules.Cost{Units: 2, Header: "X-Cost", Max: 10}, Floor: 3, MaxWait: &wait, Ahead: &rules.Ahead{Units: 1000, For: 24 * time.Hour},
					Ban: &rules.Ban{After: 10, Within: time.Minute, For: []time.Duration{time.Hour, 24 * time.Hour}, Forget: 48 * time.Hour, Prolong: true, ByHand: true}, Shadow: true,
					WhenLimited: rules.WhenLimited{
						Action: "reject", Status: 503, Header: map[string]string{"X-Why": "too many"},
						ContentType: "text/html", Body: "<p>Later</p>\n",
					},
					OnStoreError: sluice.FallbackAllow,
				},
				{
					Name: "short", Key: []rules.KeyPart{{Part: "client_ip"}}, Cost: rules.Cost{Units: 5},
					Limit: &rules.Limit{Algorithm: "token_bucket", Rate: sluice.PerMinute(100)},
				},
			},
		},
	}
	f.Attach(nil, rules.Included{})
	for i := range want.Rules {
		if !reflect.DeepEqual(f.Rules[i], want.Rules[i]) {
			t.Errorf("rule %d:\n got %+v\nwant %+v", i, f.Rules[i], want.Rules[i])
		}
	}
	f.Rules, want.Rules = nil, nil
	if !reflect.DeepEqual(f, want) {
		t.Errorf("\n got %+v\nwant %+v", f, want)
	}
}

var settingName = regexp.MustCompile(`(\w+):`)

// TestParseAllGivesEverySetting checks that testdata/all*.yaml together give every setting.
func TestParseAllGivesEverySetting(t *testing.T) {
	files, err := filepath.Glob("testdata/all*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f *File
	var zero func(path string, v reflect.Value)
	given := map[string]bool{}
	for _, name := range files {
		if f, err = Load(name); err != nil {
			t.Fatal(err)
		}
		for _, m := range settingName.FindAllStringSubmatch(string(f.Source().Data), -1) {
			given[m[1]] = true
		}
	}
	seen := map[reflect.Type]bool{} // a match may have others within
	zero = func(path string, v reflect.Value) {
		if seen[v.Type()] {
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			seen[v.Type()] = true
			for _, f := range reader.Fields(v.Type()) {
				name := f.Tag.Get("yaml")
				if !given[name] && name != "units" && name != "token" && name != "is" {
					t.Errorf("%s.%s is not given", path, name)
				}
				zero(path+"."+name, reflect.New(f.Type).Elem())
			}
		case reflect.Slice, reflect.Pointer, reflect.Map:
			zero(path, reflect.New(v.Type().Elem()).Elem())
		}
	}
	zero("", reflect.ValueOf(*f))
}

// The file with all settings makes a policy with all rules.
func TestAllSettingsMakeAPolicy(t *testing.T) {
	f, err := Load("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		t.Fatal(err)
	}
	r := p.Rule("all")
	var limits []string
	for _, l := range r.Limits {
		limits = append(limits, l.String())
	}
	want := []string{
		"all: token_bucket(100/m burst=20 debt=5 warm_up=10s cold_factor=4)",
		"all/queue: leaky_bucket(50/s queue=20 undelayed=5)",
		"all/3: fixed_window(1000/h starts=first_request count_denied=true)",
		"all/4: fixed_window(10000/month zone=Europe/Berlin)",
		"all/5: sliding_window(100/m cells=12 count_denied=true)",
		"all/6: sliding_counter(100/m count_denied=true)",
		"all/7: sliding_log(100/m min_interval=100ms count_denied=true)",
		"all/8: concurrency(max=10 queue=5 ttl=30s latency=50ms)",
	}
	if !reflect.DeepEqual(limits, want) {
		t.Errorf("limits:\n got %q\nwant %q", limits, want)
	}
	if r.MaxWait != 2*time.Second || r.Floor != 3 || r.Ban.For != time.Hour || len(r.Ban.Escalate) != 1 || r.Ban.Escalate[0] != 24*time.Hour || r.Ban.Forget != 48*time.Hour || !r.Ban.Prolong || !r.Shadow || r.WhenLimited.Status != 503 {
		t.Errorf("rule = %+v", r)
	}
	if k := r.Key[0]; k.IPv6Prefix != 48 {
		t.Errorf("key = %+v", k)
	}
	if k := p.Rule("short").Key[0]; k.IPv6Prefix != 56 {
		t.Errorf("the file's prefix is not in %+v", k)
	}
	if got := p.Rule("short").OnStoreError; got != sluice.FallbackDeny {
		t.Errorf("the file's on_store_error is not the rule's: %v", got)
	}
}

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	f, err := Parse("x", []byte("version: 1"))
	if err != nil {
		t.Fatal(err)
	}
	f.Attach(nil, rules.Included{})
	if want := Default(); !reflect.DeepEqual(f, want) {
		t.Errorf("\n got %+v\nwant %+v", f, want)
	}
}

// A File that a program changed is checked like one that was read.
func TestValidateChanged(t *testing.T) {
	f, err := Parse("x.yaml", []byte("version: 1\nrules:\n  - {name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f.Listen.Admin.Address = ":9090"
	f.Rules[0].Limit.Queue = 5
	f.Rules[0].Name = "a b"
	err = f.Validate()
	var errs reader.Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Fatalf("Validate = %v", err)
	}
	if _, err := f.Policy(); !errors.As(err, &errs) || len(errs) != 2 {
		t.Errorf("Policy = %v", err)
	}
	if pos := errs[0].Pos; pos != (reader.Pos{Line: 3, Column: 12}) {
		t.Errorf("the first error is at %v", pos)
	}
}

// A file that does not exist is an error, which errors.Is finds.
func TestMissingFilesAreErrors(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load = %v", err)
	}
}

// Each mistake of a file can be had with its position.
func TestEachMistakeHasItsPosition(t *testing.T) {
	_, err := Parse("x.yaml", []byte("version: 2\nrules: 5\n"))
	var first *reader.Error
	if !errors.As(err, &first) || first.Pos.Line != 1 || first.Path != "version" {
		t.Errorf("the first error is %+v", first)
	}
}

// No error shows a token, password or secret.
func TestSecretsAreNotShown(t *testing.T) {
	for _, text := range []string{
		"version: 1\nadmin: {token: hunter2, oops: 1}\n",
		"version: 1\nadmin:\n  token: hunter2 \n  token_file: x\n",
		"version: 1\nadmin: {token: [hunter2]}\n",
		"version: 1\nadmin: {\"token\": hunter2, token: hunter2}\n",
		"version: 1\nadmin: {token: hunter2}}\n",
		"version: 1\nadmin: {token: 'hunter2 '}\n",
		"version: 1\nupstream: http://user:hunter2@example.com\n",
		"version: 1\nadmin: {token: {a: hunter2}}\n",
		"version: 1\nstore: {redis: {addresses: [127.0.0.1:6379], password: hunter2}}\n",
		"version: 1\nstore: {redis: {addresses: [127.0.0.1:6379], passwort: hunter2}}\n",
		"version: 1\nstore: {redis: {addresses: [127.0.0.1:6379], password_env: hunter2!}}\n",
		"version: 1\nstore: {redis: {addresses: [127.0.0.1:6379], password_env: [hunter2]}}\n",
		"version: 1\nstore: {redis: {addresses: [127.0.0.1:6379], hash_keys: {secret: hunter2}}}\n",
		"version: 1\nstore: {redis: {addresses: [127.0.0.1:6379], hash_keys: {secret_env: {hunter2: 1}}}}\n",
		"version: 1\nstore: {redis: {addresses: ['redis://:hunter2@127.0.0.1:6379']}}\n",
		"version: 1\nstore: {redis: {addresses: [app:hunter2@127.0.0.1:6379]}}\n",
		"version: 1\nstore: {redis: {url: 'rediss://app:hun/hunter2@127.0.0.1:6379'}}\n",
		"version: 1\nstore: 'redis://:hunter2@127.0.0.1:6379'\n",
		"version: 1\nstore: {redis: 'redis://:hunter2@127.0.0.1:6379'}\n",
		"version: 1\nstore: {redis: {addresses: {'app:hunter2@127.0.0.1': 6379}}}\n",
	} {
		_, err := Parse("x.yaml", []byte(text))
		if err == nil {
			t.Errorf("%q: no error", text)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error about %q shows the secret: %v", text, err)
		}
	}
}

// Lines may end with \r\n. reader.Errors show them without it.
func TestWindowsLines(t *testing.T) {
	_, err := Parse("x.yaml", []byte("version: 1\r\nheaders: nones\r\n"))
	want := "x.yaml:2:10: headers: \"nones\" is unknown; did you mean \"none\"?\n    2 | headers: nones\n      |          ^"
	if err == nil || err.Error() != want {
		t.Errorf("Parse = %v\nwant %s", err, want)
	}
}
