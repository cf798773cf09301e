package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/policyfile"
)

// envoyFolder returns a folder with a small configuration.
func envoyFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}\n"
	if err := os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEnvoyEnvironment sets variables of Envoy's rate limit service.
func TestEnvoyEnvironment(t *testing.T) {
	dir := envoyFolder(t)
	redis := func(change func(r *policyfile.RedisStore)) func(f *policyfile.File) {
		return func(f *policyfile.File) {
			r := policyfile.DefaultRedis()
			change(&r)
			f.Store.Redis = &r
		}
	}
	for _, c := range []struct {
		name     string
		set      string // variables, separated by spaces
		want     func(f *policyfile.File)
		warnings []string
		errs     []string
	}{
		{"nothing", "", func(*policyfile.File) {}, []string{"REDIS_URL is not set"}, nil},
		{"ports", "PORT=18080 HOST=127.0.0.1 GRPC_PORT=18081 GRPC_HOST=::1 REDIS_URL=r:1", func(f *policyfile.File) {
			f.Listen.JSON.Address, f.Listen.GRPC.Address = "127.0.0.1:18080", "[::1]:18081"
			redis(func(r *policyfile.RedisStore) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"bad ports", "PORT=x GRPC_PORT=70000", nil, nil, []string{`PORT is "x"`, `GRPC_PORT is "70000"`}},
		{"as deployments set it", "USE_STATSD=false LOG_LEVEL=DEBUG REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 REDIS_TYPE=SINGLE RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit", func(f *policyfile.File) {
			f.Log.Level = "debug"
			redis(func(r *policyfile.RedisStore) { r.Addresses = []string{"redis:6379"} })(f)
		}, nil, nil},
		{"a cluster", "REDIS_TYPE=cluster REDIS_URL=a:1,redis://b:2 CACHE_KEY_PREFIX=x REDIS_TIMEOUT=15ms REDIS_AUTH=secret", redis(func(r *policyfile.RedisStore) {
			r.Addresses, r.Cluster, r.Prefix, r.Deadline, r.PasswordEnv = []string{"a:1", "b:2"}, true, "x", 15*time.Millisecond, "REDIS_AUTH"
		}), nil, nil},
		{"sentinels", "REDIS_TYPE=SENTINEL REDIS_URL=master,a:1,b:2 REDIS_AUTH=me:secret REDIS_SENTINEL_AUTH=other", redis(func(r *policyfile.RedisStore) {
			r.User, r.PasswordEnv = "me", "REDIS_AUTH_PASSWORD"
			r.Sentinel = &policyfile.Sentinel{Master: "master", Addresses: []string{"a:1", "b:2"}, PasswordEnv: "REDIS_SENTINEL_AUTH"}
		}), nil, nil},
		{"a socket", "REDIS_URL=/run/redis.sock", redis(func(r *policyfile.RedisStore) { r.Socket = "/run/redis.sock" }), nil, nil},
		{"tls of redis", "REDIS_URL=rediss://r:1 REDIS_TLS_CACERT=/ca.pem", redis(func(r *policyfile.RedisStore) {
			r.Addresses, r.TLS = []string{"r:1"}, policyfile.RedisTLS{Enabled: true, CA: "/ca.pem"}
		}), nil, nil},
		{"bad redis", "REDIS_URL=redis://me:secret@r:1 REDIS_TIMEOUT=soon BACKEND_TYPE=memcache", nil, nil, []string{"REDIS_AUTH=USER:PASSWORD", "REDIS_TIMEOUT", "BACKEND_TYPE"}},
		{"bad types", "REDIS_URL=a:1,b:2", nil, nil, []string{"REDIS_TYPE is SINGLE"}},
		{"no sentinels", "REDIS_URL=a:1 REDIS_TYPE=SENTINEL", nil, nil, []string{"has no sentinels"}},
		{"another type", "REDIS_URL=a:1 REDIS_TYPE=RING", nil, nil, []string{`REDIS_TYPE is "RING"`}},
		{"tls", "REDIS_URL=r:1 GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/c.pem GRPC_SERVER_TLS_KEY=/k.pem GRPC_CLIENT_TLS_CACERT=/ca.pem", func(f *policyfile.File) {
			f.Listen.GRPC.TLS = &policyfile.TLS{Cert: "/c.pem", Key: "/k.pem", ClientCA: "/ca.pem"}
			redis(func(r *policyfile.RedisStore) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"bad tls", "GRPC_SERVER_USE_TLS=true GRPC_CLIENT_TLS_SAN=x", nil, nil, []string{"GRPC_SERVER_TLS_CERT", "GRPC_CLIENT_TLS_SAN"}},
		{"modes", "REDIS_URL=r:1 SHADOW_MODE=true QUOTA_MODE=1", func(f *policyfile.File) {
			f.Shadow, f.Rules[0].Descriptor.Quota = true, true
			redis(func(r *policyfile.RedisStore) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"headers", "REDIS_URL=r:1 LIMIT_RESPONSE_HEADERS_ENABLED=true LIMIT_LIMIT_HEADER=X-RateLimit-Limit LIMIT_REMAINING_HEADER=x-ratelimit-remaining LIMIT_RESET_HEADER=X-RATELIMIT-RESET", func(f *policyfile.File) {
			f.Headers = policyfile.HeadersXRateLimit
			redis(func(r *policyfile.RedisStore) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"doubts", "USE_STATSD=true USE_PROMETHEUS=true REDIS_PERSECOND=true LOCAL_CACHE_SIZE_IN_BYTES=100 NEAR_LIMIT_RATIO=0.9 LIMIT_RESPONSE_HEADERS_ENABLED=true", func(f *policyfile.File) {
			f.Headers = policyfile.HeadersIETF
		}, []string{"LIMIT_RESPONSE_HEADERS_ENABLED", "REDIS_URL", "USE_STATSD", "USE_PROMETHEUS", "REDIS_PERSECOND", "LOCAL_CACHE_SIZE_IN_BYTES", "NEAR_LIMIT_RATIO"}, nil},
		{"refused", "CONFIG_TYPE=GRPC_XDS_SOTW GRPC_UDS=/run/x LOG_LEVEL=loud LOG_FORMAT=xml USE_STATSD=maybe", nil, nil, []string{"CONFIG_TYPE", "GRPC_UDS", "LOG_LEVEL", "LOG_FORMAT", "USE_STATSD"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range strings.Fields(c.set) {
				name, value, _ := strings.Cut(text, "=")
				t.Setenv(name, value)
			}
			t.Cleanup(func() { _ = os.Unsetenv("REDIS_AUTH_PASSWORD") })
			var e envoyEnvironment
			f, err := e.load(dir)
			if len(c.errs) > 0 {
				for _, want := range c.errs {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want %s", err, want)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := policyfile.LoadEnvoy(dir, policyfile.EnvoyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want.Listen.Proxy.Address, want.Listen.API.Address = "", ""
			want.Listen.JSON.Address, want.Listen.GRPC.Address = "0.0.0.0:8080", "0.0.0.0:8081"
			want.API.Open, want.Headers = true, policyfile.HeadersNone
			c.want(want)
			if d := policyfile.Differences(f, want); len(d) > 0 {
				t.Errorf("%v differ: %+v, want %+v", d, f.Store.Redis, want.Store.Redis)
			}
			if len(e.warnings) != len(c.warnings) {
				t.Errorf("warnings %q", e.warnings)
			}
			for i := range min(len(e.warnings), len(c.warnings)) {
				if !strings.HasPrefix(e.warnings[i], c.warnings[i]) {
					t.Errorf("warning %q, want %s", e.warnings[i], c.warnings[i])
				}
			}
			again, err := policyfile.Parse("imported.yaml", f.YAML())
			if err != nil {
				t.Fatal(err)
			}
			if d := policyfile.Differences(f, again); len(d) > 0 {
				t.Errorf("the imported file differs in %v:\n%s", d, f.YAML())
			}
		})
	}
}

func TestEnvoyFolder(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		flag, file, root, sub, app string
		want                       string
	}{
		{"", "", "", "", "", ""},
		{"d", "", "", "", "", "d"},
		{"d", "", "/root", "", "", "d"},
		{"", "", "/root", "", "", "/root/config"},
		{"", "", "/root", "ratelimit", "", "/root/ratelimit/config"},
		{"", "", "/root", "ratelimit", "x", "/root/ratelimit/x"},
		{"", "file.yaml", "/root", "", "", ""},
		{"", dir, "", "", "", dir},
	} {
		t.Setenv("RUNTIME_ROOT", c.root)
		t.Setenv("RUNTIME_SUBDIRECTORY", c.sub)
		t.Setenv("RUNTIME_APPDIRECTORY", c.app)
		s := settings{envoy: c.flag, config: c.file}
		if got := s.envoyFolder(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	both := settings{envoy: dir, config: "file.yaml"}
	if _, _, err := both.load(); err == nil || !strings.Contains(err.Error(), "sluice import envoy") {
		t.Error(err)
	}
	folder := envoyFolder(t)
	api := settings{envoy: folder, api: "127.0.0.1:8083"}
	if _, _, err := api.load(); err == nil || !strings.Contains(err.Error(), "give a token") {
		t.Errorf("the decision API is open: %v", err)
	}
	t.Setenv(apiTokenVariable, "0123456789abcdef")
	f, _, err := api.load()
	if err != nil {
		t.Fatal(err)
	}
	if token, err := apiToken(&f.API, ""); err != nil || token == "" || f.API.Open || f.Listen.API.Address != "127.0.0.1:8083" {
		t.Errorf("%+v, %v", f.API, err)
	}
	if !reflect.DeepEqual(both.warnings, []string(nil)) {
		t.Error(both.warnings)
	}
}
