package policyfile

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/sluicehq/sluice/policy"
)

func TestParseRedis(t *testing.T) {
	for name, want := range map[string]RedisStore{
		"all-redis": {
			Addresses: []string{"127.0.0.1:7001", "redis.internal:7002", "[::1]:7003"}, Cluster: true,
			TLS:  RedisTLS{Enabled: true, CA: "ca.pem", Cert: "client.pem", Key: "client.key", ServerName: "redis.example.com"},
			User: "app", PasswordFile: "/run/secrets/redis", Prefix: "shop",
			HashKeys: &HashKeys{SecretFile: "/run/secrets/keys"}, Tenant: 2, Deadline: 20 * time.Millisecond, InFlight: 500,
			Local: LocalStore{Share: Share{1, 4}, MaxSize: 16 << 20},
		},
		"all-redis-sentinel": {
			Sentinel: &Sentinel{
				Master: "main", Addresses: []string{"127.0.0.1:26379", "127.0.0.2:26379"},
				User: "watch", PasswordEnv: "SENTINEL_PASSWORD",
			},
			TLS: RedisTLS{Enabled: true}, PasswordEnv: "REDIS_PASSWORD", HashKeys: &HashKeys{SecretEnv: "KEY_SECRET"},
			Database: 3, Prefix: "sluice", Deadline: 50 * time.Millisecond, InFlight: 1024,
		},
		"all-redis-socket": {
			Socket: "/run/redis.sock", Prefix: "sluice", Deadline: 50 * time.Millisecond, InFlight: 1024,
			Local: LocalStore{Share: Share{1, 1}},
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

func TestLocalFallback(t *testing.T) {
	f, err := Load("testdata/all-redis.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Rule("per-client").OnStoreError; got != policy.FallbackLocal {
		t.Errorf("on_store_error: local is %v", got)
	}
}

// With the memory store, rules may say local: they stay as they are when the store
// changes.
func TestLocalFallbackOfMemory(t *testing.T) {
	if _, err := Parse("x.yaml", []byte("version: 1\nstore: memory\non_store_error: local\n"+
		"rules:\n  - {name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}}\n")); err != nil {
		t.Error(err)
	}
}

// What a program leaves zero has its default.
func TestValidateRedisOfAProgram(t *testing.T) {
	f := Default()
	f.Store.Redis = &RedisStore{Addresses: []string{"127.0.0.1:6379"}}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	f.Store.Redis = &RedisStore{Deadline: time.Hour, InFlight: -1, Tenant: -1, Prefix: "{"}
	var errs Errors
	if err := f.Validate(); !errors.As(err, &errs) || len(errs) != 5 {
		t.Errorf("Validate = %v, want 5 mistakes", err)
	}
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]Share{
		"1": {1, 1}, "1/4": {1, 4}, "2/8": {1, 4}, "25%": {1, 4}, "0.25": {1, 4}, ".5": {1, 2},
		"100%": {1, 1}, "33.3%": {333, 1000}, "1.0": {1, 1}, "1/1000000": {1, 1_000_000},
	} {
		if got, problem := ParseShare(text); got != want || problem != "" {
			t.Errorf("ParseShare(%q) = %v, %q; want %v", text, got, problem, want)
		}
	}
	for _, text := range []string{
		"", "%", "/", "1/0", "0/1", "0", "0%", "101%", "1/4%", "-1/4", "+1/4", "1e-1", "0x1", "1/0x4", "1_0/20", " 1/4", "1/ 4", "1/1000001",
		"0.0000001", "a", "Inf", "NaN", "1/2/3", "0b1", "0o1", "1p-1", "1/99999999999999999999999999999", "0.333333333333333333333333333333333333",
	} {
		if got, problem := ParseShare(text); problem == "" || got != (Share{}) {
			t.Errorf("ParseShare(%q) = %v, and want a problem", text, got)
		}
	}
	if got := (Share{1, 4}).String(); got != "1/4" {
		t.Errorf("String = %s", got)
	}
}

// A colon without a space does not make a setting of a text.
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
