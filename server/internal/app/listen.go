package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/listen/web"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
)

// door is how a listener of the configuration answers.
type door struct {
	entrance
	scheme string   // of the URL that is shown, without TLS
	alpn   []string // the protocols that clients may choose with TLS; nil for any
	// open makes the protocol of the listener. The argument is nil for a listener without TLS.
	open func(*tls.Config) (accept.Protocol, error)
}

// entrance is where a listener of the configuration is, and its rules of access.
type entrance struct {
	name   string
	at     accept.Listener
	access *access.Rules // nil for a listener that is for everybody, or only for trusted proxies
}

// entrances returns all listeners of the configuration.
func (a *App) entrances() []entrance {
	l := &a.file.Listen
	callers := func(name string, at accept.Listener) entrance {
		return entrance{name, at, a.callerAccess(name, at)}
	}
	return []entrance{
		{Proxy, l.Proxy, nil},
		callers(API, l.API),
		{Auth, l.Auth, nil},
		{Admin, l.Admin, a.adminAccess()},
		callers(GRPC, l.GRPC), callers(JSON, l.JSON),
		{SPOE, l.SPOE, nil},
		callers(RESP, l.RESP),
	}
}

// opening makes the protocol of a listener.
type opening = func(*tls.Config) (accept.Protocol, error)

// listen opens the listeners.
func (a *App) listen(limited http.Handler) error {
	f := a.file
	ctx, cut := context.WithCancel(context.Background())
	a.cut = cut
	const answerTime = time.Minute
	small := web.Bounds{Header: f.HTTP.HeaderTimeout, Read: f.HTTP.ReadTimeout, Write: answerTime, Idle: f.HTTP.IdleTimeout, HeaderBytes: f.HTTP.MaxHeaderSize.Int()}
	long := small
	long.Read = 0 // a body may take any time, as long as it keeps coming
	serving := func(b web.Bounds, h http.Handler, change func(*web.Protocol)) opening {
		return func(config *tls.Config) (accept.Protocol, error) {
			w := web.New(ctx, config, h, b, sampled.HTTP(a.logger))
			w.Linger = a.o.Linger
			if change != nil {
				change(w)
			}
			return w, nil
		}
	}
	at := map[string]entrance{}
	for _, p := range a.entrances() {
		at[p.name] = p
	}
	overHTTP, err := a.rateLimitsOverHTTP(at[JSON].access)
	if err != nil {
		return err
	}
	forWeb := []string{"h2", "http/1.1"}
	all := []door{
		{at[Proxy], "http", forWeb, serving(long, limited, nil)},
		{at[API], "http", forWeb, serving(small, at[API].access.Protect(a.api), (*web.Protocol).Multiplex)},
		{at[Auth], "http", forWeb, a.openAuth(serving)},
		{at[Admin], "http", forWeb, serving(small, a.admin(at[Admin].access), func(w *web.Protocol) { w.Linger = 0 })},
		{at[GRPC], "grpc", []string{"h2"}, a.openGRPC(at[GRPC].access)},
		{at[JSON], "http", forWeb, serving(small, overHTTP, nil)},
		{at[SPOE], "spop", nil, a.openSPOE(ctx)},
		{at[RESP], "redis", nil, a.openRESP(ctx, at[RESP].access)},
	}
	for i := range all {
		if err := a.open(&all[i]); err != nil {
			return err
		}
	}
	if len(a.servers) == 0 {
		return errors.New("all listeners are off; leave one on")
	}
	return nil
}

// open opens a listener, unless it is off.
func (a *App) open(l *door) error {
	config, err := a.serverTLS(l.name, l.at.TLS, l.alpn)
	if err != nil {
		return err
	}
	if l.at.Off() {
		return nil
	}
	ln, err := bind(l.name, &l.at)
	if err != nil {
		return err
	}
	scheme := l.scheme
	if config != nil {
		scheme += "s"
	}
	var balancers *accept.Balancers
	if l.at.ProxyProtocol {
		balancers = &accept.Balancers{Trusted: trusts(a.file), Patience: a.file.HTTP.HeaderTimeout, Failed: a.headerFailed}
	}
	s := &server{Server: accept.NewServer(ln, balancers), name: l.name, at: l.at.Address, scheme: scheme, secure: config != nil}
	a.servers = append(a.servers, s)
	if l.access != nil {
		if err := l.access.CheckAddress(ln.Addr(), shown(ln.Addr(), s.at)); err != nil {
			return err
		}
		s.access = l.access.Describe(ln.Addr())
	}
	if s.Protocol, err = l.open(config); err != nil {
		return fmt.Errorf("the %s listener: %w", l.name, err)
	}
	if p, ok := s.Protocol.(handshaking); ok && config != nil {
		p.OnHandshakeError(a.handshakeErrors(l.name))
	}
	return nil
}

// bind opens the listener at an address of the configuration.
func bind(name string, at *accept.Listener) (net.Listener, error) {
	if path, mode := at.Socket(); path != "" {
		return accept.BindSocket(name, path, mode)
	}
	return accept.Bind(name, at.Address)
}
