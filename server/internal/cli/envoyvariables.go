package cli

import (
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/store/remote"
)

func joinHostPort(host, port string) string { return net.JoinHostPort(strings.Trim(host, "[]"), port) }

// apply applies the variables to a configuration.
func (e *envoyEnvironment) apply(f *config.File) {
	f.Shadow = e.flag("SHADOW_MODE")
	e.log(f)
	e.tls(f)
	e.headers(f)
	e.nearLimit(f)
	e.store(f)
	e.refuse()
	e.doubt()
}

// log applies the variables of the log.
func (e *envoyEnvironment) log(f *config.File) {
	switch text := strings.ToLower(os.Getenv("LOG_LEVEL")); text {
	case "":
	case "debug", "info", "warn", "error":
		f.Log.Level = text
	case "trace":
		f.Log.Level = "debug"
	case "warning":
		f.Log.Level = "warn"
	case "fatal", "panic":
		f.Log.Level = "error"
	default:
		e.fail("LOG_LEVEL is %q; give debug, info, warn or error", os.Getenv("LOG_LEVEL"))
	}
	switch text := strings.ToLower(os.Getenv("LOG_FORMAT")); text {
	case "":
	case "text", "json":
		f.Log.Format = text
	default:
		e.fail("LOG_FORMAT is %q; give text or json", os.Getenv("LOG_FORMAT"))
	}
}

// tls applies the variables of the listener for gRPC.
func (e *envoyEnvironment) tls(f *config.File) {
	if !e.flag("GRPC_SERVER_USE_TLS") {
		return
	}
	t := &accept.TLS{Cert: os.Getenv("GRPC_SERVER_TLS_CERT"), Key: os.Getenv("GRPC_SERVER_TLS_KEY"), ClientCA: os.Getenv("GRPC_CLIENT_TLS_CACERT")}
	if t.Cert == "" || t.Key == "" {
		e.fail("GRPC_SERVER_USE_TLS is true, and GRPC_SERVER_TLS_CERT or GRPC_SERVER_TLS_KEY is missing; give the files of the certificate and of its key")
	}
	if os.Getenv("GRPC_CLIENT_TLS_SAN") != "" {
		e.fail("GRPC_CLIENT_TLS_SAN is given, and names in certificates of clients are not checked; unset it, and give GRPC_CLIENT_TLS_CACERT an authority that only such clients have certificates of")
	}
	f.Listen.GRPC.TLS = t
}

// headers applies the variables of the headers of answers.
func (e *envoyEnvironment) headers(f *config.File) {
	if !e.flag("LIMIT_RESPONSE_HEADERS_ENABLED") {
		return
	}
	n := config.HeaderNames{Limit: os.Getenv("LIMIT_LIMIT_HEADER"), Remaining: os.Getenv("LIMIT_REMAINING_HEADER"), Reset: os.Getenv("LIMIT_RESET_HEADER")}
	for _, profile := range []config.HeaderProfile{config.HeadersXRateLimit, config.HeadersXRateHyphenLimit} {
		prefix := string(profile) + "-"
		if strings.EqualFold(n.Limit, prefix+"limit") && strings.EqualFold(n.Remaining, prefix+"remaining") && strings.EqualFold(n.Reset, prefix+"reset") {
			f.Headers = profile
			return
		}
	}
	f.Headers, f.HeaderNames = config.HeadersRateLimit, n
}

// nearLimit applies the variable of the metrics.
func (e *envoyEnvironment) nearLimit(f *config.File) {
	text := os.Getenv("NEAR_LIMIT_RATIO")
	if text == "" {
		return
	}
	ratio, problem, remedy := reader.ParseRatio(text)
	if problem == "" && (ratio <= 0 || ratio > 1) {
		problem, remedy = "is not between 0 and 1", "give a ratio such as 0.8"
	}
	if problem != "" {
		e.fail("NEAR_LIMIT_RATIO is %q, which %s; %s", text, problem, remedy)
		return
	}
	f.NearLimit = ratio
}

// store applies the variables of the store.
func (e *envoyEnvironment) store(f *config.File) {
	if text := os.Getenv("BACKEND_TYPE"); text != "" && !strings.EqualFold(text, "redis") {
		e.fail("BACKEND_TYPE is %q; Sluice keeps its state in Redis or Valkey, or in its own memory: give redis, or unset it", text)
	}
	text := os.Getenv("REDIS_URL")
	if text == "" {
		e.warn("REDIS_URL is not set, so this server counts in its own memory, and others count for themselves")
		return
	}
	r := remote.Default()
	f.Store.Redis = &r
	if prefix := os.Getenv("CACHE_KEY_PREFIX"); prefix != "" {
		r.Prefix = prefix
	}
	if text := os.Getenv("REDIS_TIMEOUT"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			e.fail("REDIS_TIMEOUT is %q; give a time such as 15ms", text)
		}
		r.Deadline = d
	}
	r.PasswordEnv, r.User = e.password("REDIS_AUTH")
	e.redisAddress(&r, text)
	if r.Sentinel != nil {
		r.Sentinel.PasswordEnv, r.Sentinel.User = e.password("REDIS_SENTINEL_AUTH")
	}
	e.redisTLS(&r)
}

// redisAddress reads where Redis is.
func (e *envoyEnvironment) redisAddress(r *remote.Settings, text string) {
	if strings.Contains(text, "@") {
		e.fail("REDIS_URL has a user or a password in it; give them as REDIS_AUTH=USER:PASSWORD")
		return
	}
	hosts := strings.Split(text, ",")
	for i := range hosts {
		hosts[i] = strings.TrimSpace(hosts[i])
		if rest, ok := strings.CutPrefix(hosts[i], "rediss://"); ok {
			hosts[i], r.TLS.Enabled = rest, true
		}
		hosts[i] = strings.TrimSuffix(strings.TrimPrefix(hosts[i], "redis://"), "/")
	}
	switch kind := strings.ToUpper(os.Getenv("REDIS_TYPE")); kind {
	case "", "SINGLE":
		switch {
		case len(hosts) > 1:
			e.fail("REDIS_URL has %d addresses, and REDIS_TYPE is SINGLE; give one address, or REDIS_TYPE=CLUSTER or SENTINEL", len(hosts))
		case strings.HasPrefix(hosts[0], "/"):
			r.Socket = hosts[0]
		default:
			r.Addresses = hosts
		}
	case "CLUSTER":
		r.Addresses, r.Cluster = hosts, true
	case "SENTINEL":
		if len(hosts) < 2 {
			e.fail("REDIS_URL has no sentinels; give MASTER,HOST:PORT,HOST:PORT…")
			return
		}
		r.Sentinel = &remote.Sentinel{Master: hosts[0], Addresses: hosts[1:]}
	default:
		e.fail("REDIS_TYPE is %q; give SINGLE, CLUSTER or SENTINEL", kind)
	}
}

// redisTLS applies the certificates for Redis.
func (e *envoyEnvironment) redisTLS(r *remote.Settings) {
	if !e.flag("REDIS_TLS") && !r.TLS.Enabled {
		return
	}
	r.TLS = remote.TLS{
		Enabled: true, CA: os.Getenv("REDIS_TLS_CACERT"), Cert: os.Getenv("REDIS_TLS_CLIENT_CERT"), Key: os.Getenv("REDIS_TLS_CLIENT_KEY"),
	}
	if e.flag("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
		e.fail("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION is true, and certificates are always checked; unset it, and give the name in the certificate: sluice import envoy DIR, then store.redis.tls.server_name")
	}
}

// password returns the variable that holds only the password of USER:PASSWORD, and the user.
func (e *envoyEnvironment) password(name string) (variable, user string) {
	text := os.Getenv(name)
	if text == "" {
		return "", ""
	}
	user, password, found := strings.Cut(text, ":")
	if !found {
		return name, ""
	}
	// The server reads passwords from variables, so that no configuration holds one.
	own := name + "_PASSWORD"
	if err := os.Setenv(own, password); err != nil {
		e.fail("%s cannot be read: %w", name, err)
	}
	return own, user
}

// refuse reports variables that need what Sluice does not have.
func (e *envoyEnvironment) refuse() {
	if text := os.Getenv("CONFIG_TYPE"); text != "" && !strings.EqualFold(text, "FILE") {
		e.fail("CONFIG_TYPE is %q; Sluice reads files: give FILE, or unset it", text)
	}
}

// doubts are variables of true or false that have no effect here if they are true, with what to do instead.
var doubts = []struct{ name, instead string }{
	{"USE_STATSD", "the metrics are for Prometheus, at /metrics of --listen-admin; set USE_STATSD=false"},
	{"USE_DOG_STATSD", "the metrics are for Prometheus, at /metrics of --listen-admin; set USE_DOG_STATSD=false"},
	{"USE_PROMETHEUS", "the metrics are at /metrics of --listen-admin, whatever PROMETHEUS_ADDR and PROMETHEUS_PATH are"},
	{"DISABLE_STATS", "the metrics are counted always; --listen-admin off hides them"},
	{"REDIS_PERSECOND", "limits per second are kept in the same store as all others"},
	{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "without Redis, on_store_error decides, and /healthcheck fails only if it is deny for all rules; watch sluice_store_up of /metrics"},
	{"TRACING_ENABLED", "calls of gateways have no spans; set TRACING_ENABLED=false"},
	{"FORCE_START_WITHOUT_INITIAL_CONFIG", "the server starts only with a configuration"},
}

// given are other variables that have no effect here, with their usual values and what to do instead.
var given = []struct{ name, usual, instead string }{
	{"LOCAL_CACHE_SIZE_IN_BYTES", "0", "denials are not kept in the process; for decisions without Redis give hybrid: true to descriptors"},
	{"DEBUG_HOST", "", "probes and metrics are at --listen-admin"},
	{"DEBUG_PORT", "", "probes and metrics are at --listen-admin"},
	{"GRPC_MAX_CONNECTION_AGE", "24h", "connections last as long as they are used"},
	{"GRPC_MAX_CONNECTION_AGE_GRACE", "1h", "connections last as long as they are used"},
	{"EXTRA_TAGS", "", "add labels where Prometheus scrapes /metrics"},
	{"EXPIRATION_JITTER_MAX_SECONDS", "300", "a key of Redis ends when its count has no effect any more"},
	{"RUNTIME_IGNOREDOTFILES", "true", "names that begin with a dot are skipped; rename files that should be read"},
}

// tuning are variables of how another program calls Redis.
var tuning = []string{
	"REDIS_POOL_SIZE", "REDIS_PIPELINE_WINDOW", "REDIS_PIPELINE_LIMIT", "REDIS_CLUSTER_PIPELINE_PARALLELISM", "REDIS_POOL_ON_EMPTY_BEHAVIOR",
	"REDIS_STARTUP_INITIAL_INTERVAL", "REDIS_STARTUP_MAX_INTERVAL", "REDIS_STARTUP_MAX_ELAPSED_TIME",
}

// doubt warns of variables that have no effect.
func (e *envoyEnvironment) doubt() {
	for _, d := range doubts {
		if e.flag(d.name) {
			e.warn("%s is true and has no effect: %s", d.name, d.instead)
		}
	}
	if host, port := os.Getenv("STATSD_HOST"), os.Getenv("STATSD_PORT"); host+port != "" && os.Getenv("USE_STATSD") == "" {
		e.warn("STATSD_HOST or STATSD_PORT is given and has no effect: the metrics are for Prometheus, at /metrics of --listen-admin; set USE_STATSD=false")
	}
	for _, d := range given {
		if text := os.Getenv(d.name); text != "" && text != d.usual {
			e.warn("%s is given and has no effect: %s", d.name, d.instead)
		}
	}
	names := slices.DeleteFunc(slices.Clone(tuning), func(name string) bool { return os.Getenv(name) == "" })
	if len(names) > 0 {
		e.warn("%s: given and without an effect, because Sluice has its own way to call Redis; remove them", strings.Join(names, ", "))
	}
}
