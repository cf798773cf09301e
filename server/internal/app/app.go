package app

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/admin"
	"github.com/sluicehq/sluice/server/internal/api"
	"github.com/sluicehq/sluice/server/internal/proxy"
	"github.com/sluicehq/sluice/server/internal/telemetry"
	"github.com/sluicehq/sluice/server/internal/webhook"
)

// The names of the listeners.
const (
	Proxy = "proxy"
	API   = "api"
	Admin = "admin"
)

// Options are what an App is made from.
type Options struct {
	// File is the configuration. Required.
	File *policyfile.File
	// Load reads the configuration anew, for App.Reload. Default: it cannot be.
	Load func() (*policyfile.File, error)
	// Token is the admin token, empty for none.
	Token string
	// Version is the program's, for its metrics.
	Version string
	// Logger is the program's log. Default: slog.Default().
	Logger *slog.Logger
	// Stall is how long a client may leave a body standing, or an answer unread.
	// Default: proxy.DefaultStall.
	Stall time.Duration
	// Linger is how long clients with connections that they keep open are waited
	// for when the server drains. Default: 1 s.
	Linger time.Duration
	// Window is the least time over which pressure is measured. Default: that of gate.Options.
	Window time.Duration
}

// App is a server that listens. Make it with New; run it once, with Run, or give it
// up with Close.
type App struct {
	o       Options
	file    *policyfile.File // of the start; what can change is in reloads
	logger  *slog.Logger
	store   sluice.Store
	memory  *memory.Store // the store, unless that is elsewhere
	redis   *redis        // the store, if that is there
	gate    *gate.Gate
	metrics *telemetry.Metrics
	engine  *engine
	reloads reloads
	api     *api.API
	servers []*server // those that are drained first come first; admin is the last
	webhook *webhook.Webhook

	transport *proxy.Transport // to the upstream
	elsewhere *proxy.Transport // to where rules send degraded requests
	fallbacks *proxy.Fallbacks
	echo      *http.Server
	pipe      *pipeListener

	errorLog  *telemetry.Sampler // of the store's errors
	answerLog *telemetry.Sampler // of answers that cannot be given

	cut      context.CancelFunc // ends the contexts of all requests
	draining atomic.Bool
	serving  atomic.Bool
}

// errDraining and errStarting say why the server is not ready.
var (
	errDraining = errors.New("draining: this server is about to stop")
	errStarting = errors.New("starting")
)

// New puts a server together and opens its listeners; it answers from Run on.
// On an error nothing stays open.
func New(o Options) (*App, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Linger == 0 {
		o.Linger = time.Second
	}
	a := &App{
		o: o, file: o.File, logger: o.Logger, reloads: reloads{file: o.File, since: time.Now()},
		errorLog: telemetry.NewSampler(errorsPerSecond), answerLog: telemetry.NewSampler(errorsPerSecond),
	}
	if err := a.assemble(); err != nil {
		a.Close()
		return nil, fmt.Errorf("sluice: %w", err)
	}
	return a, nil
}

// assemble makes the parts, from the store up.
func (a *App) assemble() error {
	f := a.file
	rules, err := a.compile(f)
	if err != nil {
		return err
	}
	a.metrics = telemetry.NewMetrics(a.o.Version)
	a.metrics.SetRules(rules.Rules())
	if err := a.openStore(rules); err != nil {
		return err
	}
	if err := a.openGate(); err != nil {
		return err
	}
	a.metrics.Pressure(a.pressure)
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: f.TrustedProxies, IPv6Prefix: f.IPv6Prefix})
	if err != nil {
		return err
	}
	deciding := httplimit.PolicyOptions{Policy: rules, Store: a.store, ClientIP: ip}
	if f.TrustMarks {
		deciding.TrustMarks = ip.TrustsPeer
	}
	decider, err := httplimit.NewPolicyDecider(deciding)
	if err != nil {
		return err
	}
	fingerprints := telemetry.NewFingerprinter()
	a.engine = &engine{
		decider: decider,
		store:   a.store,
		gate:    a.gate,
		metrics: a.metrics,
		denials: telemetry.NewDenials(a.logger, f.Log.Sample, fingerprints.Fingerprint),
		denied:  telemetry.NewDeniedKeys(fingerprints.Fingerprint),
	}
	authorize := func(*http.Request) error {
		return errors.New("use the admin listener, or give the server an admin token to allow it here too")
	}
	if a.o.Token != "" {
		authorize = func(r *http.Request) error { return admin.Authorize(r, a.o.Token) }
	}
	headers, err := httplimit.NewHeaders(headersOf(f))
	if err != nil {
		return err
	}
	a.api, err = api.New(api.Options{
		Decider: a.engine, Store: a.store, Fingerprint: fingerprints.Fingerprint, Headers: headers, Pressure: a.pressure, DeniedKeys: a.engine.deniedKeys,
		AnswerFailed: a.answerFailed, Authorize: authorize, MaxBody: int64(f.HTTP.MaxBodySize),
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
	return a.listen(limited)
}

// openStore makes the store that the configuration names.
func (a *App) openStore(rules *policy.Policy) (err error) {
	f := a.file
	if f.Store.Redis == nil {
		a.memory, err = memory.New(memory.Options{
			MaxBytes:     int64(f.Store.Memory.MaxSize),
			DenyWhenFull: f.Store.Memory.WhenFull == "deny",
		})
		a.store = a.memory
		return err
	}
	a.redis, err = newRedis(context.Background(), f, a.logger, a.metrics.Histogram("sluice_store_call_duration_seconds",
		"Time that calls of the store took, whatever came of them."))
	if err != nil {
		return err
	}
	a.redis.setPolicy(rules)
	a.store = a.redis.guard
	return nil
}

// listen opens the listeners.
func (a *App) listen(limited http.Handler) error {
	f := a.file
	ctx, cut := context.WithCancel(context.Background())
	a.cut = cut
	const answerTime = time.Minute
	small := limits{header: f.HTTP.HeaderTimeout, read: f.HTTP.ReadTimeout, write: answerTime, idle: f.HTTP.IdleTimeout, headerBytes: int(f.HTTP.MaxHeaderSize)}
	long := small
	long.read = 0 // bodies may take their time, as long as they keep coming
	for _, l := range []struct {
		name    string
		at      policyfile.Listener
		handler http.Handler
		limits  limits
	}{
		{Proxy, f.Listen.Proxy, limited, long},
		{API, f.Listen.API, http.NewCrossOriginProtection().Handler(a.api), small},
		{Admin, f.Listen.Admin, a.admin(), small},
	} {
		config, err := serverTLS(l.name, l.at.TLS)
		if err != nil {
			return err
		}
		ln, err := bind(l.name, l.at)
		if err != nil {
			return err
		}
		if ln == nil {
			continue
		}
		a.servers = append(a.servers, newServer(ctx, l.name, ln, config, l.handler, l.limits, a.logger))
		if l.name == Admin {
			if err := admin.CheckAddress(ln.Addr(), a.o.Token); err != nil {
				return err
			}
		}
	}
	if len(a.servers) == 0 {
		return errors.New("all listeners are off; leave one on")
	}
	return nil
}

// admin returns the handler of the admin listener.
func (a *App) admin() http.Handler {
	return admin.New(admin.Options{
		Token:  a.o.Token,
		Ready:  a.Ready,
		Detail: a.detail,
		Pages: map[string]http.Handler{
			"/metrics":            a.metrics.Handler(),
			"/v1/peek":            a.api.Peek(),
			"/v1/reset":           a.api.Reset(),
			"/v1/bans":            a.api.Bans(),
			"/v1/keys":            a.api.Keys(),
			"/v1/pressure":        a.api.Pressure(),
			"/v1/pressure/{rule}": a.api.Pressure(),
		},
	})
}

// Ready reports why the server should get no requests; nil if it should.
func (a *App) Ready() error {
	switch {
	case a.draining.Load():
		return errDraining
	case !a.serving.Load():
		return errStarting
	case a.redis != nil:
		return a.redis.ready()
	default:
		return nil
	}
}

// detail says more about it, in lines.
func (a *App) detail() string {
	var lines []string
	if a.redis != nil {
		lines = append(lines, a.redis.status())
	}
	if config := a.reloads.status(); config != "" {
		lines = append(lines, config)
	}
	return strings.Join(lines, "\n")
}

// URL returns where programs on this machine reach a listener; empty if it is off.
func (a *App) URL(name string) string {
	for _, s := range a.servers {
		if s.name == name {
			scheme := "http"
			if s.tls {
				scheme = "https"
			}
			return urlOf(scheme, s.ln.Addr())
		}
	}
	return ""
}

// Announce prints where the server listens, and for the quick start what to try.
func (a *App) Announce(w io.Writer, quickStart bool) error {
	var text strings.Builder
	if quickStart {
		a.announceQuickStart(&text)
	} else {
		for _, s := range a.servers {
			fmt.Fprintf(&text, "%-6s %s\n", s.name, a.URL(s.name))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Close gives up an App that does not run.
func (a *App) Close() {
	for _, s := range a.servers {
		_ = s.ln.Close() // it served nobody
	}
	a.release()
}

// release frees what is not a listener.
func (a *App) release() {
	if a.cut != nil {
		a.cut()
	}
	if a.echo != nil {
		_ = a.echo.Close() // the built-in service has no one but us
	}
	if a.pipe != nil {
		_ = a.pipe.Close()
	}
	for _, t := range []*proxy.Transport{a.transport, a.elsewhere} {
		if t != nil {
			t.Close()
		}
	}
	if a.api != nil {
		a.api.Close()
	}
	if a.memory != nil {
		_ = a.memory.Close() // it has nothing to write
	}
	if a.redis != nil {
		a.redis.close()
	}
}

// errorsPerSecond bounds how many errors of one kind are logged each second.
const errorsPerSecond = 10

// storeFailed logs an error of the store for which no request failed, a few a second.
func (a *App) storeFailed(err error) {
	if hidden, ok := a.errorLog.Take(time.Now()); ok {
		a.logger.Error("the store failed", "error", err, "not_logged", hidden)
	}
}

// answerFailed logs why a request did not get the answer that its rule says, if there is an
// error: a file that was there when the configuration was read is gone, or may not be read.
func (a *App) answerFailed(err error) {
	if err == nil {
		return
	}
	if hidden, ok := a.answerLog.Take(time.Now()); ok {
		a.logger.Error("an answer cannot be given; a problem document is sent in its place", "error", err, "not_logged", hidden)
	}
}
