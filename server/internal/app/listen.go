package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/access"
)

// door is how a listener of the configuration answers.
type door struct {
	entrance
	scheme string   // of the URL that is shown, without TLS
	alpn   []string // the protocols that clients may choose with TLS; nil for any
	// open makes the protocol of the listener. The argument is nil for a listener without TLS.
	open func(*tls.Config) (protocol, error)
}

// entrance is where a listener of the configuration is, and its rules of access.
type entrance struct {
	name   string
	at     policyfile.Listener
	access *access.Rules // nil for a listener that is for everybody, or only for trusted proxies
}

// entrances returns all listeners of the configuration.
func (a *App) entrances() []entrance {
	l := &a.file.Listen
	callers := func(name string, at policyfile.Listener) entrance {
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
type opening = func(*tls.Config) (protocol, error)

// listen opens the listeners.
func (a *App) listen(limited http.Handler) error {
	f := a.file
	ctx, cut := context.WithCancel(context.Background())
	a.cut = cut
	const answerTime = time.Minute
	small := limits{header: f.HTTP.HeaderTimeout, read: f.HTTP.ReadTimeout, write: answerTime, idle: f.HTTP.IdleTimeout, headerBytes: f.HTTP.MaxHeaderSize.Int()}
	long := small
	long.read = 0 // a body may take any time, as long as it keeps coming
	serving := func(l limits, h http.Handler, change func(*web)) opening {
		return func(config *tls.Config) (protocol, error) {
			w := newWeb(ctx, config, h, l, newErrorLog(a.logger))
			w.lingering = a.o.Linger
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
		{at[API], "http", forWeb, serving(small, at[API].access.Protect(a.api), (*web).multiplex)},
		{at[Auth], "http", forWeb, a.openAuth(ctx, serving)},
		{at[Admin], "http", forWeb, serving(small, a.admin(at[Admin].access), func(w *web) { w.lingering = 0 })},
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
	ln, err := bind(l.name, l.at)
	if ln == nil || err != nil {
		return err
	}
	scheme := l.scheme
	if config != nil {
		scheme += "s"
	}
	s := newServer(l.name, l.at.Address, scheme, ln, nil)
	s.secure = config != nil
	if l.at.ProxyProtocol {
		s.proxied = func(b *boundedListener) net.Listener {
			return proxiedListener{b, trusts(a.file), a.file.HTTP.HeaderTimeout, a.headerFailed}
		}
	}
	a.servers = append(a.servers, s)
	if l.access != nil {
		if err := l.access.CheckAddress(ln.Addr(), shown(ln.Addr(), s.at)); err != nil {
			return err
		}
		s.access = l.access.Describe(ln.Addr())
	}
	if s.protocol, err = l.open(config); err != nil {
		return fmt.Errorf("the %s listener: %w", l.name, err)
	}
	if p, ok := s.protocol.(handshaking); ok && config != nil {
		p.OnHandshakeError(a.handshakeErrors(l.name))
	}
	return nil
}
