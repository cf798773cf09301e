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
	name   string
	at     policyfile.Listener
	scheme string        // of the URL that is shown, without TLS
	alpn   []string      // the protocols that clients may choose with TLS; nil for any
	access *access.Rules // nil for a listener that is for everybody, or only for trusted proxies
	// open makes the protocol of the listener. The argument is nil for a listener without TLS.
	open func(*tls.Config) (protocol, error)
}

// opening makes the protocol of a listener.
type opening = func(*tls.Config) (protocol, error)

// listen opens the listeners.
func (a *App) listen(limited http.Handler) error {
	f := a.file
	ctx, cut := context.WithCancel(context.Background())
	a.cut = cut
	const answerTime = time.Minute
	small := limits{header: f.HTTP.HeaderTimeout, read: f.HTTP.ReadTimeout, write: answerTime, idle: f.HTTP.IdleTimeout, headerBytes: int(f.HTTP.MaxHeaderSize)}
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
	callers, operators := a.callerAccess(API, f.Listen.API), a.adminAccess()
	clients, gateways := a.callerAccess(RESP, f.Listen.RESP), a.callerAccess(GRPC, f.Listen.GRPC)
	posters := a.callerAccess(JSON, f.Listen.JSON)
	overHTTP, err := a.rateLimitsOverHTTP(posters)
	if err != nil {
		return err
	}
	forWeb := []string{"h2", "http/1.1"}
	all := []door{
		{Proxy, f.Listen.Proxy, "http", forWeb, nil, serving(long, limited, nil)},
		{API, f.Listen.API, "http", forWeb, callers, serving(small, callers.Protect(a.api), (*web).multiplex)},
		{Auth, f.Listen.Auth, "http", forWeb, nil, a.openAuth(ctx, serving)},
		{Admin, f.Listen.Admin, "http", forWeb, operators, serving(small, a.admin(operators), func(w *web) { w.lingering = 0 })},
		{GRPC, f.Listen.GRPC, "grpc", []string{"h2"}, gateways, a.openGRPC(gateways)},
		{JSON, f.Listen.JSON, "http", forWeb, posters, serving(small, overHTTP, nil)},
		{SPOE, f.Listen.SPOE, "spop", nil, nil, a.openSPOE(ctx)},
		{RESP, f.Listen.RESP, "redis", nil, clients, a.openRESP(ctx, clients)},
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
	return nil
}
