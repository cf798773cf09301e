package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/echo"
	"github.com/sluicehq/sluice/server/internal/edge/admin"
	"github.com/sluicehq/sluice/server/internal/edge/api"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/logfile"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/webhook"
	"github.com/sluicehq/sluice/server/internal/store/local"
	"github.com/sluicehq/sluice/server/internal/store/remote"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// The names of the listeners.
const (
	Proxy = "proxy"
	API   = "api"
	Admin = "admin"
	Auth  = "auth"
	GRPC  = "grpc"
	JSON  = "json"
	SPOE  = "spoe"
	RESP  = "resp"
)

// Options configure an App.
type Options struct {
	// File is the configuration. Required.
	File *config.File
	// Load reads the configuration again, for App.Reload. Without it, Reload fails.
	Load func() (*config.File, error)
	// Refused is why the current configuration is refused, if File is an earlier one, of the time Since. Default: none.
	Refused error
	Since   time.Time
	// Keep saves a copy of the configuration that runs, at the start and after each Reload that applied one. If the disk is full, the
	// App goes on, and calls it again. Default: none.
	Keep func(*config.File) error
	// Token is the admin token, empty for none.
	Token string
	// APIToken is the token of the decision API, empty for none.
	APIToken string
	// ReadTokens reads both tokens of a configuration, and TokenFiles are the files that it reads. Default: the tokens are
	// Token and APIToken, and do not change.
	ReadTokens func(*config.File) (token, apiToken string, err error)
	TokenFiles []string
	// Overridden has what replaced settings of the file, such as "--listen-admin" for "listen.admin.address". Check names it
	// in place of the setting. Default: nothing.
	Overridden map[string]string
	// Version is the version of the program, for its metrics.
	Version string
	// Logger is the log of the program. Default: slog.Default().
	Logger *slog.Logger
	// Stall is how long a client may send nothing of a body, or read nothing of an answer.
	// Default: proxy.DefaultStall.
	Stall time.Duration
	// Linger is how long a draining server waits for clients to close idle connections. Default: 1 s.
	Linger time.Duration
	// Window is the shortest time over which pressure is measured. Default: as in gate.Options.
	Window time.Duration
}

// App is a server that listens. Make it with New. Run it once with Run, or give it up with Close.
type App struct {
	o      Options
	file   *config.File // the configuration at the start; reloads has the current one
	logger *slog.Logger
	store  sluice.Store
	memory *memory.Store // the store, if it is in this process
	states *local.States // saves it; nil unless it has a file
	rooms  []*local.Room // the stores in this process
	redis  *remote.Store // the store, if it is in Redis
	// pipelines decides questions that arrive together; nil if the store is in this process.
	pipelines *pipeline.Pipelines
	gate      *gate.Gate
	metrics   *telemetry.Metrics
	engine    *engine
	ip        *httplimit.ClientIP
	headers   *httplimit.Headers
	reloads   reloads
	kept      kept
	api       *api.API

	descriptors *telemetry.Descriptors // counted for gateways

	audit      *audit.Log    // nil without one
	accessFile *logfile.File // nil without one

	refreshes refreshes
	operators *access.Tokens // of the admin listener; nil without a token
	callers   *access.Tokens // of the decision API; nil without a token
	servers   []*server      // in the order of draining; admin is the last
	webhook   *webhook.Webhook

	transport *proxy.Transport // to the upstream
	elsewhere *proxy.Transport // to the upstreams of rules that degrade
	fallbacks *proxy.Fallbacks
	abandoned *proxy.Abandoned // requests whose clients have left
	echo      *echo.Service    // nil unless it is the upstream

	storeLog   *sampled.Log // errors of the store
	answerLog  *sampled.Log // answers that cannot be sent
	gatewayLog *sampled.Log // unusable requests of gateways
	headerLog  *sampled.Log // balancers without the header of the PROXY protocol

	refused    atomic.Uint64 // connections beyond what a client may have
	headerless atomic.Uint64 // connections without the header of the PROXY protocol

	cut      context.CancelFunc // ends the contexts of all requests
	draining atomic.Bool
	serving  atomic.Bool
}

// errDraining and errStarting are why the server is not ready.
var (
	errDraining = errors.New("draining: this server is about to stop")
	errStarting = errors.New("starting")
)

// New makes a server and opens its listeners. It answers from Run on. After an error nothing stays open.
func New(o Options) (*App, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Linger == 0 {
		o.Linger = time.Second
	}
	a := &App{
		o: o, file: o.File, logger: o.Logger, reloads: reloads{file: o.File, since: time.Now(), applied: 1},
		storeLog: sampled.New(o.Logger), answerLog: sampled.New(o.Logger), gatewayLog: sampled.New(o.Logger), headerLog: sampled.New(o.Logger),
	}
	if o.Refused != nil {
		a.reloads.refused, a.reloads.since = &refusal{o.Refused, time.Now()}, o.Since
		a.reloads.refusals++
		a.logRefusal(o.Refused)
		a.logger.Error("the server starts with an earlier configuration, because the current one is bad", "of", o.Since.Format(time.RFC3339))
	}
	err := a.assemble()
	if err == nil {
		err = a.keepFirst()
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("sluice: %w", err)
	}
	return a, nil
}

// assemble makes the parts, from the store up.
func (a *App) assemble() error {
	f := a.file
	rules, err := a.compile(f, nil)
	if err != nil {
		return err
	}
	a.metrics = telemetry.NewMetrics(a.o.Version)
	a.metrics.SetRules(a.counted(rules))
	a.descriptors = telemetry.NewDescriptors(a.metrics, float64(f.NearLimit))
	a.descriptors.SetRules(rules.Rules())
	if err := a.openStore(rules); err != nil {
		return err
	}
	if err := a.openGate(); err != nil {
		return err
	}
	a.metrics.Pressure(a.pressure)
	networks, unix := f.Trusted()
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: networks, TrustUnix: unix, IPv6Prefix: f.IPv6Prefix})
	if err != nil {
		return err
	}
	a.ip = ip
	deciding := httplimit.PolicyOptions{Policy: rules, Store: a.store, ClientIP: ip, Removes: removes(ip, f.Upstream.MethodOverride)}
	if f.TrustMarks {
		deciding.TrustMarks = ip.TrustsPeer
	}
	decider, err := httplimit.NewPolicyDecider(deciding)
	if err != nil {
		return err
	}
	fingerprints, err := fingerprinter(&f.Log)
	if err != nil {
		return err
	}
	a.engine = &engine{
		decider: decider,
		gate:    a.gate,
		metrics: a.metrics,
		denials: telemetry.NewDenials(a.logger, f.Log.Sample, fingerprints.Fingerprint),
		denied:  telemetry.NewDeniedKeys(fingerprints.Fingerprint),
	}
	if err := a.openAccessLog(fingerprints.Fingerprint); err != nil {
		return err
	}
	if err := a.openTracing(); err != nil {
		return err
	}
	authorize := func(*http.Request) error {
		return errors.New("use the admin listener, or give the server an admin token to allow it here too")
	}
	if a.audit, err = audit.Open(audit.Options{File: f.Audit.File, Tokens: a.o.Token != "", Logger: a.logger, Metrics: a.metrics}); err != nil {
		return err
	}
	if err := a.setTokens(); err != nil {
		return err
	}
	if a.operators != nil {
		authorize = access.Authorizer(Admin, a.operators)
	}
	if a.headers, err = httplimit.NewHeaders(headersOf(f)); err != nil {
		return err
	}
	a.api, err = api.New(api.Options{
		Decider: decider.Rules(), Pipelines: a.pipelines, OnVerdict: a.engine.answered(telemetry.EdgeAPI), Fingerprint: fingerprints.Fingerprint, Headers: a.headers, Pressure: a.pressure, DeniedKeys: a.engine.deniedKeys,
		Hybrid:       func(rule string, most int) wire.Hybrid { return a.listHybrid(rule, most, fingerprints.Fingerprint) },
		AnswerFailed: a.answerFailed, Authorize: authorize,
		BeforeChange: func(r *http.Request, c api.Change) error { return a.audit.Begin(r, audit.Change(c)) },
		OnChange:     func(r *http.Request, c api.Change) { a.audit.Changed(r, audit.Change(c)) },
		MaxBody:      int64(f.HTTP.MaxBodySize),
	})
	if err != nil {
		return err
	}
	limited, err := a.limitedProxy(ip)
	if err != nil {
		return err
	}
	if err := a.openWebhook(); err != nil {
		return err
	}
	a.publishStats()
	a.publishReloads()
	a.publishRefreshes()
	a.metrics.Counter("sluice_refused_connections_total", "Connections that were closed because their clients had as many as a client may have.",
		func() float64 { return float64(a.refused.Load()) })
	a.metrics.Counter("sluice_proxy_protocol_failures_total", "Connections of trusted proxies that did not begin with a valid header of the PROXY protocol.",
		func() float64 { return float64(a.headerless.Load()) })
	return a.listen(limited)
}

// openStore makes the store of the configuration.
func (a *App) openStore(rules *policy.Policy) (err error) {
	f := a.file
	if f.Store.Redis == nil {
		a.memory, a.states, err = local.Open(&f.Store.Memory, a.logger, a.metrics)
		if err != nil {
			return err
		}
		a.store = a.memory
		return nil
	}
	a.redis, err = remote.Open(context.Background(), f.Store.Redis, a.logger, a.metrics.Histogram("sluice_store_call_duration_seconds",
		"Duration of calls of the store, whatever their outcome."), a.storeFailed)
	if err != nil {
		return err
	}
	a.redis.SetPolicy(rules)
	a.store = a.redis.Guard()
	a.pipelines = pipeline.New(a.store, f.Store.Redis.InFlight, f.Store.Redis.Cluster)
	return nil
}

// connectionBounds returns what each listener accepts. Trusted proxies connect for many clients.
func (a *App) connectionBounds() accept.Bounds {
	return accept.Bounds{
		Most: a.file.HTTP.MaxConnections, PerClient: a.file.HTTP.MaxConnectionsPerClient,
		Exempt: trusts(a.file), Refused: &a.refused,
	}
}

// admin returns the handler of the admin listener.
func (a *App) admin(rules *access.Rules) http.Handler {
	return admin.New(admin.Options{
		Protect: rules.Protect,
		Ready:   a.Ready,
		Detail:  a.detail,
		Pages: map[string]http.Handler{
			"/metrics":            a.metrics.Handler(),
			"/v1/peek":            a.api.Peek(),
			"/v1/reset":           a.api.Reset(),
			"/v1/bans":            a.api.Bans(),
			"/v1/keys":            a.api.Keys(),
			"/v1/hybrid":          a.api.Hybrid(),
			"/v1/pressure":        a.api.Pressure(),
			"/v1/pressure/{rule}": a.api.Pressure(),
		},
	})
}

// Ready returns why the server should get no requests; nil if it should.
func (a *App) Ready() error {
	switch {
	case a.draining.Load():
		return errDraining
	case !a.serving.Load():
		return errStarting
	case a.redis != nil:
		return a.redis.Ready()
	default:
		return nil
	}
}

// detail returns lines about the store and the configuration, for the readiness probe.
func (a *App) detail() string {
	var lines []string
	if a.redis != nil {
		lines = append(lines, a.redis.Status())
	}
	if line := a.states.Status(); line != "" {
		lines = append(lines, line)
	}
	for _, r := range a.rooms {
		if line := r.Status(); line != "" {
			lines = append(lines, line)
		}
	}
	lines = appendFailure(lines, "audit", a.audit.Err())
	if a.accessFile != nil {
		lines = appendFailure(lines, "access_log", a.accessFile.Err())
	}
	for _, line := range []string{a.kept.status(), a.reloads.status()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// appendFailure adds a line about a log that cannot be written.
func appendFailure(lines []string, what string, err error) []string {
	if err == nil {
		return lines
	}
	return append(lines, fmt.Sprintf("%s: cannot be written; %v", what, err))
}

// Close gives up an App that does not run.
func (a *App) Close() {
	for _, s := range a.servers {
		_ = s.Listener.Close() // it has not served
	}
	a.release()
}

// release frees everything except the listeners.
func (a *App) release() {
	if a.cut != nil {
		a.cut()
	}
	if a.abandoned != nil {
		a.abandoned.Close()
	}
	if a.echo != nil {
		a.echo.Close()
	}
	for _, t := range []*proxy.Transport{a.transport, a.elsewhere} {
		if t != nil {
			t.Close()
		}
	}
	if a.api != nil {
		a.api.Close()
	}
	a.pipelines.Close()
	_ = a.states.Close() // all has been written, and synced
	if a.memory != nil {
		_ = a.memory.Close() // memory has nothing to write
	}
	if a.redis != nil {
		a.redis.Close()
	}
	a.audit.Close()
	a.closeAccessLog()
	a.closeTracing()
}

// storeFailed logs an error of the store that failed no request.
func (a *App) storeFailed(err error) { a.storeLog.Error("the store failed", "error", err) }

// answerFailed logs why a request did not get the answer of its rule, if there is an error. For
// example, a file that existed when the configuration was read is gone, or cannot be read any more.
func (a *App) answerFailed(err error) {
	if err != nil {
		a.answerLog.Error("the answer of a rule cannot be sent; a problem document is sent instead", "error", err)
	}
}
