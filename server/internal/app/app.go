package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/webhook"
	"github.com/sluicehq/sluice/server/internal/secret"
	"github.com/sluicehq/sluice/server/internal/store/peers"
	"github.com/sluicehq/sluice/server/internal/systemd"
	"github.com/sluicehq/sluice/server/internal/writable"
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
	// Keep saves a copy of the configuration that runs, at the start and after each Reload that applied one. If the
	// disk is full, the App goes on, and calls it again. Default: none.
	Keep func(*config.File) error
	// Token is the admin token, empty for none.
	Token string
	// APIToken is the token of the decision API, and ReadToken the token that only reads; empty for none.
	APIToken, ReadToken string
	// ReadTokens reads the tokens of a configuration, and TokenFiles are the files that it reads. Default: the tokens are
	// the three above, and do not change.
	ReadTokens func(*config.File) (access.Secrets, error)
	TokenFiles []string
	// Overridden has what replaced settings of the file, such as "--listen-admin" for "listen.admin.address". Check
	// names it in place of the setting. Default: nothing.
	Overridden map[string]string
	// Passed are the sockets that another program has opened for listeners, by their names. Default: none.
	Passed map[string]net.Listener
	// Manager is notified when the server is ready, and when it stops. Default: none.
	Manager *systemd.Manager
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
	o        Options
	metrics  *telemetry.Metrics
	engine   engine
	upstream upstream
	audit    *audit.Log // nil without one
	callers  *access.Callers
	files    secret.Files     // of certificates and tokens
	webhook  *webhook.Webhook // nil without one
	reloads  *reloads
	kept     *kept // nil without Options.Keep
	servers  *accept.Servers
	peers    *peers.Peers // nil without Redis

	started  time.Time
	cut      context.CancelFunc // ends the contexts of all requests
	ending   chan struct{}      // closed when requests that would never end must end
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
	a := &App{o: o, started: time.Now(), ending: make(chan struct{}), metrics: telemetry.NewMetrics(o.Version), reloads: newReloads(&o)}
	err := a.assemble()
	if err == nil && o.Refused == nil { // otherwise the copy itself runs
		if err = a.kept.keep(o.File); writable.Full(err) {
			err = nil // it is saved when there is room
		}
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("sluice: %w", err)
	}
	return a, nil
}

// assemble connects the parts, from the store up.
func (a *App) assemble() (err error) {
	f, e := a.o.File, &a.engine
	e.file, e.logger, e.metrics = f, a.o.Logger, a.metrics
	if err := e.open(&a.o); err != nil {
		return err
	}
	if a.audit, err = audit.Open(audit.Options{File: f.Audit.File, Tokens: a.o.Token != "", Logger: a.o.Logger, Metrics: a.metrics}); err != nil {
		return err
	}
	if err := a.readTokens(); err != nil {
		return err
	}
	if err := e.openAPI(a.callers, a.audit, a.deniedKeys); err != nil {
		return err
	}
	if err := a.upstream.open(e, &a.files, a.o.Stall); err != nil {
		return err
	}
	a.webhook, err = webhook.Open(f.ScaleOut.Webhook, webhook.Options{
		Rules: e.ruleNames, Pressure: e.pressure, Version: a.o.Version, Logger: a.o.Logger,
	}, a.metrics)
	if err != nil {
		return err
	}
	a.reloads.publish(a.metrics)
	publishFiles(a.metrics, &a.files)
	a.kept = newKept(&a.o, a.metrics)
	ctx, cut := context.WithCancel(context.Background())
	a.cut = cut
	a.servers, err = accept.Open(accept.Options{
		MaxConnections: f.HTTP.MaxConnections, PerClient: f.HTTP.MaxConnectionsPerClient, Trusted: e.ip.Trusts, HeaderTimeout: f.HTTP.HeaderTimeout,
		Passed: a.o.Passed, Callers: a.callers, Files: &a.files, Logger: a.o.Logger, Metrics: a.metrics,
	}, f.Listen.All(), a.endpoints(ctx))
	if err == nil {
		a.peers = e.store.Peers(a.self(), a.answer, a.o.Logger)
	}
	return err
}

// secrets returns the tokens at the start.
func (o *Options) secrets() access.Secrets {
	return access.Secrets{Admin: o.Token, API: o.APIToken, Read: o.ReadToken}
}

// readTokens makes the callers that tokens admit. The tokens are read again when their files change.
func (a *App) readTokens() error {
	a.callers = access.NewCallers(a.o.secrets(), a.o.File.API.Open, a.audit.Refusals)
	if a.o.ReadTokens == nil || len(a.o.TokenFiles) == 0 {
		return nil
	}
	return a.files.Read("the tokens", a.o.TokenFiles, func() error {
		tokens, err := a.o.ReadTokens(a.o.File)
		if err != nil {
			return err
		}
		return a.callers.Set(tokens)
	})
}

// Ready returns why the server should get no requests; nil if it should.
func (a *App) Ready() error {
	switch {
	case a.draining.Load():
		return errDraining
	case !a.serving.Load():
		return errStarting
	default:
		return a.engine.store.Ready()
	}
}

// detail returns the notes for the readiness probe.
func (a *App) detail() string { return strings.Join(a.notes(), "\n") }

// notes returns lines about the store, the logs and the configuration.
func (a *App) notes() []string {
	lines := append(a.engine.store.Status(),
		cannotBeWritten("audit", a.audit.Err()), cannotBeWritten("access_log", a.engine.decisions.Err()), a.kept.status(), a.reloads.status())
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// cannotBeWritten returns a line about a log; empty without an error.
func cannotBeWritten(what string, err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s: cannot be written; %v", what, err)
}

// StateBytes returns how much memory the states in this process take. There are no pointers in it.
func (a *App) StateBytes() int64 { return a.engine.store.Bytes() }

// Close gives up an App that does not run.
func (a *App) Close() {
	if a.servers != nil {
		a.servers.Close()
	}
	a.close()
}

// close closes everything except the listeners.
func (a *App) close() {
	if a.cut != nil {
		a.cut()
	}
	a.upstream.close()
	a.engine.close()
	a.audit.Close()
}
