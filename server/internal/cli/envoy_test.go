package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/store/remote"
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
	redis := func(change func(r *remote.Settings)) func(f *config.File) {
		return func(f *config.File) {
			r := remote.Default()
			change(&r)
			f.Store.Redis = &r
		}
	}
	for _, c := range []struct {
		name     string
		set      string // variables, separated by spaces
		want     func(f *config.File)
		warnings []string
		errs     []string
	}{
		{"nothing", "", func(*config.File) {}, []string{"REDIS_URL is not set"}, nil},
		{"ports", "PORT=18080 HOST=127.0.0.1 GRPC_PORT=18081 GRPC_HOST=::1 REDIS_URL=r:1", func(f *config.File) {
			f.Listen.JSON.Address, f.Listen.GRPC.Address = "127.0.0.1:18080", "[::1]:18081"
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"bad ports", "PORT=x GRPC_PORT=70000", nil, nil, []string{`PORT is "x"`, `GRPC_PORT is "70000"`}},
		{"as deployments set it", "USE_STATSD=false LOG_LEVEL=DEBUG REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 REDIS_TYPE=SINGLE RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit", func(f *config.File) {
			f.Log.Level = "debug"
			redis(func(r *remote.Settings) { r.Addresses = []string{"redis:6379"} })(f)
		}, nil, nil},
		{"a cluster", "REDIS_TYPE=cluster REDIS_URL=a:1,redis://b:2 CACHE_KEY_PREFIX=x REDIS_TIMEOUT=15ms REDIS_AUTH=secret", redis(func(r *remote.Settings) {
			r.Addresses, r.Cluster, r.Prefix, r.Deadline, r.PasswordEnv = []string{"a:1", "b:2"}, true, "x", 15*time.Millisecond, "REDIS_AUTH"
		}), nil, nil},
		{"sentinels", "REDIS_TYPE=SENTINEL REDIS_URL=master,a:1,b:2 REDIS_AUTH=me:secret REDIS_SENTINEL_AUTH=other", redis(func(r *remote.Settings) {
			r.User, r.PasswordEnv = "me", "REDIS_AUTH_PASSWORD"
			r.Sentinel = &remote.Sentinel{Master: "master", Addresses: []string{"a:1", "b:2"}, PasswordEnv: "REDIS_SENTINEL_AUTH"}
		}), nil, nil},
		{"a socket", "REDIS_URL=/run/redis.sock", redis(func(r *remote.Settings) { r.Socket = "/run/redis.sock" }), nil, nil},
		{"tls of redis", "REDIS_URL=rediss://r:1 REDIS_TLS_CACERT=/ca.pem", redis(func(r *remote.Settings) {
			r.Addresses, r.TLS = []string{"r:1"}, remote.TLS{Enabled: true, CA: "/ca.pem"}
		}), nil, nil},
		{"bad redis", "REDIS_URL=redis://me:secret@r:1 REDIS_TIMEOUT=soon BACKEND_TYPE=memcache", nil, nil, []string{"REDIS_AUTH=USER:PASSWORD", "REDIS_TIMEOUT", "BACKEND_TYPE"}},
		{"bad types", "REDIS_URL=a:1,b:2", nil, nil, []string{"REDIS_TYPE is SINGLE"}},
		{"no sentinels", "REDIS_URL=a:1 REDIS_TYPE=SENTINEL", nil, nil, []string{"has no sentinels"}},
		{"another type", "REDIS_URL=a:1 REDIS_TYPE=RING", nil, nil, []string{`REDIS_TYPE is "RING"`}},
		{"tls", "REDIS_URL=r:1 GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/c.pem GRPC_SERVER_TLS_KEY=/k.pem GRPC_CLIENT_TLS_CACERT=/ca.pem", func(f *config.File) {
			f.Listen.GRPC.TLS = &accept.TLS{Cert: "/c.pem", Key: "/k.pem", ClientCA: "/ca.pem"}
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"bad tls", "GRPC_SERVER_USE_TLS=true GRPC_CLIENT_TLS_SAN=x", nil, nil, []string{"GRPC_SERVER_TLS_CERT", "GRPC_CLIENT_TLS_SAN"}},
		{"modes", "REDIS_URL=r:1 SHADOW_MODE=true QUOTA_MODE=1", func(f *config.File) {
			f.Shadow, f.Rules[0].Descriptor.Quota = true, true
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"headers", "REDIS_URL=r:1 LIMIT_RESPONSE_HEADERS_ENABLED=true LIMIT_LIMIT_HEADER=X-RateLimit-Limit LIMIT_REMAINING_HEADER=x-ratelimit-remaining LIMIT_RESET_HEADER=X-RATELIMIT-RESET", func(f *config.File) {
			f.Headers = config.HeadersXRateLimit
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"headers without names", "REDIS_URL=r:1 LIMIT_RESPONSE_HEADERS_ENABLED=true", func(f *config.File) {
			f.Headers = config.HeadersRateLimit
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"headers with other names", "REDIS_URL=r:1 LIMIT_RESPONSE_HEADERS_ENABLED=true LIMIT_LIMIT_HEADER=X-Most LIMIT_RESET_HEADER=X-Back-In", func(f *config.File) {
			f.Headers, f.HeaderNames = config.HeadersRateLimit, config.HeaderNames{Limit: "X-Most", Reset: "X-Back-In"}
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"bad names of headers", "LIMIT_RESPONSE_HEADERS_ENABLED=true LIMIT_LIMIT_HEADER=X:Most", nil, nil, []string{"header_names.limit"}},
		{"near the limit", "REDIS_URL=r:1 NEAR_LIMIT_RATIO=0.9", func(f *config.File) {
			f.NearLimit = 0.9
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"bad ratio", "NEAR_LIMIT_RATIO=1.5", nil, nil, []string{`NEAR_LIMIT_RATIO is "1.5"`}},
		{"a socket for gRPC", "REDIS_URL=r:1 GRPC_UDS=/run/limits.sock", func(f *config.File) {
			f.Listen.GRPC.Address = "unix:/run/limits.sock"
			redis(func(r *remote.Settings) { r.Addresses = []string{"r:1"} })(f)
		}, nil, nil},
		{"doubts", "USE_STATSD=true USE_PROMETHEUS=true REDIS_PERSECOND=true LOCAL_CACHE_SIZE_IN_BYTES=100", func(*config.File) {
		}, []string{"REDIS_URL", "USE_STATSD", "USE_PROMETHEUS", "REDIS_PERSECOND", "LOCAL_CACHE_SIZE_IN_BYTES"}, nil},
		{"refused", "CONFIG_TYPE=GRPC_XDS_SOTW LOG_LEVEL=loud LOG_FORMAT=xml USE_STATSD=maybe", nil, nil, []string{"CONFIG_TYPE", "LOG_LEVEL", "LOG_FORMAT", "USE_STATSD"}},
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
			want, err := config.LoadEnvoy(dir, envoy.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want.Listen.Proxy.Address, want.Listen.API.Address = "", ""
			want.Listen.JSON.Address, want.Listen.GRPC.Address = "0.0.0.0:8080", "0.0.0.0:8081"
			want.API.Open, want.Headers = true, config.HeadersNone
			c.want(want)
			if d := config.Differences(f, want); len(d) > 0 {
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
			again, err := config.Parse("imported.yaml", f.YAML())
			if err != nil {
				t.Fatal(err)
			}
			if d := config.Differences(f, again); len(d) > 0 {
				t.Errorf("the imported file differs in %v:\n%s", d, f.YAML())
			}
		})
	}
}

// TestEveryEnvoyVariable sets each variable of Envoy's rate limit service by itself, to a value that is not its default. It changes the
// configuration, or is an error or a warning that names it, unless Sluice does without it what that service does with it. The page for
// users of that service names all of them.
func TestEveryEnvoyVariable(t *testing.T) {
	page, err := os.ReadFile("../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	base := "USE_STATSD=false REDIS_URL=r:1 "
	load := func(t *testing.T, set string) (*config.File, []string, error) {
		for _, text := range strings.Fields(set) {
			name, value, _ := strings.Cut(text, "=")
			t.Setenv(name, value)
		}
		var e envoyEnvironment
		f, err := e.load(envoyFolder(t))
		return f, e.warnings, err
	}
	before, warnings, err := load(t, base)
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	const tls = "GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/c GRPC_SERVER_TLS_KEY=/k "
	for _, c := range []struct{ with, set string }{
		{"", "HOST=127.0.0.1"},
		{"", "PORT=1"},
		{"", "DEBUG_HOST=127.0.0.1"},
		{"", "DEBUG_PORT=1"},
		{"", "GRPC_UDS=/run/x"},
		{"", "GRPC_HOST=127.0.0.1"},
		{"", "GRPC_PORT=1"},
		{"", "GRPC_MAX_CONNECTION_AGE=1h"},
		{"", "GRPC_MAX_CONNECTION_AGE_GRACE=2h"},
		{"", "GRPC_SERVER_USE_TLS=true"},
		{tls, "GRPC_SERVER_TLS_CERT=/d"},
		{tls, "GRPC_SERVER_TLS_KEY=/d"},
		{tls, "GRPC_CLIENT_TLS_CACERT=/d"},
		{tls, "GRPC_CLIENT_TLS_SAN=x"},
		{"", "LOG_LEVEL=debug"},
		{"", "LOG_FORMAT=json"},
		{"", "CONFIG_TYPE=GRPC_XDS_SOTW"},
		{"", "FORCE_START_WITHOUT_INITIAL_CONFIG=true"},
		{"", "USE_DOG_STATSD=true"},
		{"", "USE_STATSD=true"},
		{"USE_STATSD= ", "STATSD_HOST=x"},
		{"USE_STATSD= ", "STATSD_PORT=1"},
		{"", "EXTRA_TAGS=a:b"},
		{"", "DISABLE_STATS=true"},
		{"", "USE_PROMETHEUS=true"},
		{"", "RUNTIME_IGNOREDOTFILES=false"},
		{"", "EXPIRATION_JITTER_MAX_SECONDS=1"},
		{"", "LOCAL_CACHE_SIZE_IN_BYTES=1"},
		{"", "NEAR_LIMIT_RATIO=0.5"},
		{"", "CACHE_KEY_PREFIX=x"},
		{"", "BACKEND_TYPE=memcache"},
		{"", "LIMIT_RESPONSE_HEADERS_ENABLED=true"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true ", "LIMIT_LIMIT_HEADER=X-A"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true ", "LIMIT_REMAINING_HEADER=X-A"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true ", "LIMIT_RESET_HEADER=X-A"},
		{"", "REDIS_TYPE=CLUSTER"},
		{"", "REDIS_URL=s:1"},
		{"", "REDIS_POOL_SIZE=1"},
		{"", "REDIS_AUTH=x"},
		{"", "REDIS_TLS=true"},
		{"REDIS_TLS=true ", "REDIS_TLS_CLIENT_CERT=/x"},
		{"REDIS_TLS=true ", "REDIS_TLS_CLIENT_KEY=/x"},
		{"REDIS_TLS=true ", "REDIS_TLS_CACERT=/x"},
		{"REDIS_TLS=true ", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"},
		{"", "REDIS_PIPELINE_WINDOW=1ms"},
		{"", "REDIS_PIPELINE_LIMIT=1"},
		{"", "REDIS_CLUSTER_PIPELINE_PARALLELISM=2"},
		{"", "REDIS_PERSECOND=true"},
		{"REDIS_TYPE=SENTINEL REDIS_URL=m,s:1 ", "REDIS_SENTINEL_AUTH=x"},
		{"", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true"},
		{"", "REDIS_TIMEOUT=1s"},
		{"", "REDIS_POOL_ON_EMPTY_BEHAVIOR=ERROR"},
		{"", "REDIS_STARTUP_INITIAL_INTERVAL=1m"},
		{"", "REDIS_STARTUP_MAX_INTERVAL=1m"},
		{"", "REDIS_STARTUP_MAX_ELAPSED_TIME=1m"},
		{"", "SHADOW_MODE=true"},
		{"", "QUOTA_MODE=true"},
		{"", "TRACING_ENABLED=true"},
	} {
		name, _, _ := strings.Cut(c.set, "=")
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { _ = os.Unsetenv("REDIS_AUTH_PASSWORD") })
			without, earlier, errWithout := before, []string(nil), error(nil)
			if c.with != "" {
				without, earlier, errWithout = load(t, base+c.with)
			}
			f, warnings, err := load(t, c.set)
			if err != nil {
				if !strings.Contains(err.Error(), name) && errWithout == nil && !strings.Contains(err.Error(), "GRPC_SERVER_TLS") {
					t.Error(err)
				}
			} else if text := strings.Join(warnings, "\n"); len(config.Differences(without, f)) == 0 && (len(warnings) == len(earlier) || !strings.Contains(text, name)) {
				t.Errorf("it is ignored without a word; warnings: %q", warnings)
			}
			if !strings.Contains(string(page), "`"+name) {
				t.Errorf("docs/envoy.md has no %s", name)
			}
		})
	}
	// These need nothing: the server does what they select anyway, or refuses what they belong to.
	for _, name := range []string{
		"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY", "RUNTIME_WATCH_ROOT", "MERGE_DOMAIN_CONFIG", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
		"RESPONSE_DYNAMIC_METADATA", "REDIS_SOCKET_TYPE", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
		"STATS_FLUSH_INTERVAL", "USE_DOG_STATSD_MOGRIFIERS", "PROMETHEUS_", "REDIS_PERSECOND_", "MEMCACHE_", "CONFIG_GRPC_XDS_", "XDS_CLIENT_", "TRACING_",
	} {
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("docs/envoy.md has no %s", name)
		}
	}
}

// The folder of Envoy's files comes from the flag first, and then from Envoy's variables.
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
			t.Errorf("%+v: the folder is %q, want %q", c, got, c.want)
		}
	}
	both := settings{envoy: dir, config: "file.yaml"}
	if _, _, err := both.load(); err == nil || !strings.Contains(err.Error(), "sluice import envoy") {
		t.Error(err)
	}
	folder := envoyFolder(t)
	other := address("127.0.0.1:8083")
	api := settings{envoy: folder, listen: map[string]*address{"api": &other}}
	if _, _, err := api.load(); err == nil || !strings.Contains(err.Error(), "give a token") {
		t.Errorf("the decision API is open: %v", err)
	}
	t.Setenv(apiTokenVariable, "0123456789abcdef")
	f, _, err := api.load()
	if err != nil {
		t.Fatal(err)
	}
	if token, err := apiToken(&f.API, ""); err != nil || token == "" || f.API.Open || f.Listen.API.Address != "127.0.0.1:8083" {
		t.Errorf("the API should need its token at 127.0.0.1:8083: %+v, %v", f.API, err)
	}
	if !reflect.DeepEqual(both.warnings, []string(nil)) {
		t.Errorf("the folder should need no warning: %q", both.warnings)
	}
}
