package config

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/observe/webhook"
	"github.com/sluicehq/sluice/server/internal/store/remote"
)

// The settings of Redis are read as written, with the defaults for the rest.
func TestParseRedis(t *testing.T) {
	for name, want := range map[string]remote.Settings{
		"all-redis": {
			Addresses: []string{"127.0.0.1:7001", "redis.internal:7002", "[::1]:7003"}, Cluster: true,
			TLS:  remote.TLS{Enabled: true, CA: "ca.pem", Cert: "client.pem", Key: "client.key", ServerName: "redis.example.com"},
			User: "app", PasswordFile: "/run/secrets/redis", Prefix: "shop",
			HashKeys: &remote.HashKeys{SecretFile: "/run/secrets/keys"}, Tenant: 2, Deadline: 20 * time.Millisecond, InFlight: 500,
			Local: remote.Fallback{Share: reader.Share{Of: 1, Parts: 4}, MaxSize: 16 << 20},
		},
		"all-redis-sentinel": {
			Sentinel: &remote.Sentinel{
				Master: "main", Addresses: []string{"127.0.0.1:26379", "127.0.0.2:26379"},
				User: "watch", PasswordEnv: "SENTINEL_PASSWORD",
			},
			TLS: remote.TLS{Enabled: true}, PasswordEnv: "REDIS_PASSWORD", HashKeys: &remote.HashKeys{SecretEnv: "KEY_SECRET"},
			Database: 3, Prefix: "sluice", Deadline: 50 * time.Millisecond, InFlight: 1024,
		},
		"all-redis-socket": {
			Socket: "/run/redis.sock", Prefix: "sluice", Deadline: 50 * time.Millisecond, InFlight: 1024,
			Local: remote.Fallback{Share: reader.Share{Of: 1, Parts: 1}},
		},
	} {
		f, err := Load("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Store.Redis; !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, *got, want)
		}
	}
}

// The fallback local of a file is the fallback of its rule.
func TestLocalFallback(t *testing.T) {
	f, err := Load("testdata/all-redis.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Rule("per-client").OnStoreError; got != sluice.FallbackLocal {
		t.Errorf("on_store_error: local is %v", got)
	}
}

// With the memory store, rules may have on_store_error: local, so that rules need no change when the store does.
func TestLocalFallbackOfMemory(t *testing.T) {
	if _, err := Parse("x.yaml", []byte("version: 1\nstore: memory\non_store_error: local\n"+
		"rules:\n  - {name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}}\n")); err != nil {
		t.Error(err)
	}
}

// A zero that a program left is the default.
func TestValidateRedisOfAProgram(t *testing.T) {
	f := Default()
	f.Store.Redis = &remote.Settings{Addresses: []string{"127.0.0.1:6379"}}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	f.Store.Redis = &remote.Settings{Deadline: time.Hour, InFlight: -1, Tenant: -1, Prefix: "{"}
	var errs reader.Errors
	if err := f.Validate(); !errors.As(err, &errs) || len(errs) != 5 {
		t.Errorf("Validate = %v, want 5 mistakes", err)
	}
}

// A colon without a space does not turn a text into a setting.
func TestColonsInListsWithinBraces(t *testing.T) {
	f, err := Parse("x.yaml", []byte("version: 1\nrules:\n  - {name: a, key: [header:X-User, query:q, constant:1:2, \"cookie:c\"], limit: {algorithm: token_bucket, rate: 5/s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range f.Rules[0].Key {
		got = append(got, k.Part)
	}
	if want := []string{"header:X-User", "query:q", "constant:1:2", "cookie:c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// With a space, or in quotes, it does.
	for _, text := range []string{"header: X-User", `"header":X-User`, `header:"X-User"`, "{header:X-User}"} {
		if _, err := Parse("x.yaml", []byte("version: 1\nrules:\n  - {name: a, key: ["+text+"], limit: {algorithm: token_bucket, rate: 5/s}}\n")); err == nil {
			t.Errorf("[%s] is read as a text", text)
		}
	}
}

// The settings of the webhook are read as written, with the defaults for the rest.
func TestScaleOut(t *testing.T) {
	const head = "version: 1\nrules: [{name: api, key: global, limit: {algorithm: token_bucket, rate: 5/s}}]\n"
	for _, c := range []struct {
		text string
		hook *webhook.Settings
	}{
		{"", nil},
		{
			"scale_out: {webhook: {url: https://ops.example.com/hook?token=1, secret_env: HOOK_SECRET}}\n",
			&webhook.Settings{URL: "https://ops.example.com/hook?token=1", SecretEnv: "HOOK_SECRET", Above: 0.8, Below: 0.5, For: 10 * time.Second},
		},
		{
			"scale_out: {webhook: {url: http://127.0.0.1:8000, secret_file: /run/s, rules: api, above: 90%, below: 0.9, for: 0, every: 1m}}\n",
			&webhook.Settings{URL: "http://127.0.0.1:8000", SecretFile: "/run/s", Rules: []string{"api"}, Above: 0.9, Below: 0.9, Every: time.Minute},
		},
		{
			"scale_out: {webhook: {url: http://127.0.0.1:8000, secret_file: /run/s, above: 1500%, below: 10}}\n",
			&webhook.Settings{URL: "http://127.0.0.1:8000", SecretFile: "/run/s", Above: 15, Below: 10, For: 10 * time.Second},
		},
	} {
		f, err := Parse("x.yaml", []byte(head+c.text))
		if err != nil {
			t.Errorf("%swas refused: %v", c.text, err)
			continue
		}
		if !reflect.DeepEqual(f.ScaleOut.Webhook, c.hook) {
			t.Errorf("%sgot %+v", c.text, f.ScaleOut.Webhook)
		}
	}
}

// Two files differ in the settings that mean something else, whatever their words.
func TestOnlyOtherMeaningsAreDifferences(t *testing.T) {
	const redis = "store: {redis: {addresses: [127.0.0.1:6379], tls: true}}\n"
	for _, c := range []struct {
		a, b string
		want []string
	}{
		{"", "", nil},
		{"listen: {api: 127.0.0.1:8081}\n", "# the same, in other words\nlisten:\n  api: {address: 127.0.0.1:8081}\n", nil},
		{"listen: {api: 127.0.0.1:8081}\n", "listen: {api: off}\n", []string{"listen.api.address"}},
		{"", "listen: {proxy: {address: 127.0.0.1:8080, tls: {cert: a, key: b}}}\n", []string{"listen.proxy.tls"}},
		{"", redis, []string{"store.redis"}},
		{redis, "store: {redis: {addresses: [127.0.0.1:6380], tls: {ca: x}}}\n", []string{"store.redis.addresses", "store.redis.tls.ca"}},
		{redis, "store: {redis: {addresses: [127.0.0.1:6379]}}\n", []string{"store.redis.tls"}},
		{"trusted_proxies: [10.0.0.0/8]\n", "trusted_proxies: [10.0.0.0/9]\njitter: 1s\n", []string{"trusted_proxies", "jitter"}},
		{"", "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}}]\n", []string{"rules"}},
	} {
		var files [2]*File
		for i, text := range []string{c.a, c.b} {
			f, err := Parse("x.yaml", []byte("version: 1\n"+text))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = f
		}
		if got := Differences(files[0], files[1]); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q and %q differ in %q, want %q", c.a, c.b, got, c.want)
		}
		if got := Differences(files[1], files[0]); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q and %q, the other way round, differ in %q, want %q", c.b, c.a, got, c.want)
		}
	}
}

// Files that give every setting differ in every setting from a file that gives none.
func TestDifferencesKnowAllSettings(t *testing.T) {
	differ := map[string]bool{}
	for _, name := range []string{"testdata/all.yaml", "testdata/all-rules.yaml"} {
		all, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range Differences(all, Default()) {
			for p := path; p != ""; p = reader.Parent(p) {
				differ[p] = true
			}
		}
	}
	for _, name := range reader.Accepted(reflect.TypeFor[File]()) {
		if !differ[name] && name != "version" {
			t.Errorf("%s does not differ", name)
		}
	}
}

// A library that reads a file skips the settings that this package adds to the rules, and no others.
func TestLibrarySkipsSettingsOfServer(t *testing.T) {
	own := reader.Accepted(reflect.TypeFor[rules.File]())
	for _, name := range reader.Accepted(reflect.TypeFor[File]()) {
		if name == "version" || slices.Contains(own, name) {
			continue
		}
		f, err := policyfile.Parse("x.yaml", []byte("version: 1\n"+name+": {a: b}\n"))
		if err != nil || len(f.Warnings()) != 1 {
			t.Errorf("the library should skip %s with one warning: %v", name, err)
		}
	}
}
