package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/server/internal/edge/proxy/direct"
	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"golang.org/x/net/http/httpguts"
)

// DefaultStall is how long a client may stall by default.
const DefaultStall = time.Minute

// Options configure a Proxy.
type Options struct {
	// Upstream is where requests go: http or https, a host, and perhaps a path
	// that is put before each request's path. Required.
	Upstream *url.URL
	// Transport carries requests to the upstream. Required.
	Transport *Transport
	// UpstreamHost sends the upstream's own name as Host. Default: the client's
	// Host.
	UpstreamHost bool
	// Trusted reports whether the peer of a connection is a proxy whose X-Forwarded-* headers
	// can be trusted. A peer at a Unix socket has an invalid address. Default: no peer is.
	Trusted func(peer netip.Addr) bool
	// ClientIP returns the address of a request's client. Default: the address of the peer.
	ClientIP func(r *http.Request) netip.Addr
	// Upgrades are the protocols to which clients may switch a connection to the upstream. The Upgrade
	// header of others is removed. Default: websocket.
	Upgrades []string
	// MethodOverride passes on headers by which services replace the method, such as
	// X-HTTP-Method-Override. Default: they are removed.
	MethodOverride bool
	// Stall is how long a client may take to send the next piece of a body, or to
	// receive one. Default: DefaultStall. Upgraded connections have no such limit.
	Stall time.Duration
	// MinRate is how many bytes a second a client must send of a body, or receive of an answer, on average over
	// the time in which the proxy waits for it. Zero: no such bound.
	MinRate int64
	// Grace is how long a client may wait in addition to the time that MinRate gives it. It is of use only with MinRate.
	Grace time.Duration
	// BodyTimeout is how long the proxy waits for a client to send a body, all in all. Zero: no bound.
	BodyTimeout time.Duration
	// Abandoned counts and bounds the requests whose clients have left. Default: one of the proxy's own.
	Abandoned *Abandoned
	// MaxBody bounds the body of a request, in bytes. Zero: no bound, because a body is passed
	// on as it comes and never held.
	MaxBody int64
	// Failed is called for each request that the upstream did not answer. Optional.
	Failed func(f Failure)
	// Sample reports whether a failure is to be logged now, and how many were not logged since the last one.
	// Default: all are.
	Sample func(f Failure) (hidden int, ok bool)
	// Logger gets the reasons of these failures. Default: slog.Default().
	Logger *slog.Logger
	// ErrorLog gets what package httputil has to say. Default: nobody.
	ErrorLog *log.Logger
}

// Proxy is an http.Handler that passes requests on to an upstream. Serve it within Bounded. It
// is safe for concurrent use.
type Proxy struct {
	o       Options
	below   bool // the URL of the upstream has a path
	reverse httputil.ReverseProxy
	// direct carries plain requests to an address; nil if there is no direct path.
	direct  *direct.Client
	address string
}

var _ http.Handler = (*Proxy)(nil)

// New returns a proxy. The error names the missing option.
func New(o Options) (*Proxy, error) {
	switch {
	case o.Upstream == nil || o.Upstream.Host == "" || (o.Upstream.Scheme != "http" && o.Upstream.Scheme != "https"):
		return nil, fmt.Errorf("proxy: the upstream %q is not an http:// or https:// URL with a host", o.Upstream)
	case o.Transport == nil:
		return nil, errors.New("proxy: there is no transport; make one with NewTransport")
	}
	if o.Trusted == nil {
		o.Trusted = func(netip.Addr) bool { return false }
	}
	if o.ClientIP == nil {
		o.ClientIP = peer
	}
	if o.Upgrades == nil {
		o.Upgrades = []string{"websocket"}
	}
	if o.Stall == 0 {
		o.Stall = DefaultStall
	}
	if o.Failed == nil {
		o.Failed = func(Failure) {}
	}
	if o.Sample == nil {
		o.Sample = func(Failure) (int, bool) { return 0, true }
	}
	if o.Abandoned == nil {
		o.Abandoned = NewAbandoned(AbandonedOptions{})
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.ErrorLog == nil {
		o.ErrorLog = log.New(io.Discard, "", 0)
	}
	p := &Proxy{o: o, below: strings.Trim(o.Upstream.Path, "/") != ""}
	if o.Upstream.Scheme == "http" && isPlainHost(o.Upstream.Host) {
		p.direct, p.address = o.Transport.direct, net.JoinHostPort(o.Upstream.Hostname(), cmp.Or(o.Upstream.Port(), "80"))
	}
	p.reverse = httputil.ReverseProxy{
		Rewrite:       func(pr *httputil.ProxyRequest) { pr.Out = p.outbound(pr.Out.Context(), pr.In) },
		Transport:     o.Transport,
		FlushInterval: -1, // each piece of an answer leaves when it comes
		ModifyResponse: func(res *http.Response) error {
			if res.StatusCode == http.StatusSwitchingProtocols {
				return nil
			}
			return checkStatus(res.StatusCode)
		},
		ErrorHandler: p.fail,
		ErrorLog:     o.ErrorLog,
	}
	return p, nil
}

// ServeHTTP passes one request on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		problem(w, http.StatusMethodNotAllowed, "This is a reverse proxy: it opens no tunnels.")
		return
	}
	if p.below && climbs(r.URL.EscapedPath()) {
		problem(w, http.StatusBadRequest, "The path of the request has a segment of two dots.")
		return
	}
	answer := p.newAnswer(w, r)
	if !isPrintable(r.Header["Upgrade"]) || !isOneLine(r) {
		p.fail(answer, r, errMalformed)
		return
	}
	ctx := r.Context()
	if answer.pending != nil {
		ctx, answer.passage = newPassage(ctx, p.o.Abandoned, answer.pending.Cancels())
		defer answer.finish()
	}
	if p.direct != nil && p.carryPlain(ctx, answer, r) {
		answer.end()
		return
	}
	in := r
	if ctx != r.Context() || r.ContentLength != 0 || len(r.Header["Upgrade"]) > 0 {
		in = r.WithContext(ctx) // a shallow copy, whose body is replaced below
	}
	if len(r.Header["Upgrade"]) > 0 && !p.upgrades(r) {
		in.Header = maps.Clone(r.Header)
		delete(in.Header, "Upgrade")
	}
	if r.ContentLength != 0 {
		body := in.Body
		if p.o.MaxBody > 0 {
			body = http.MaxBytesReader(w, body, p.o.MaxBody)
		}
		control := &readControl{control: &answer.control}
		defer control.end()
		answer.body = &patientBody{
			ReadCloser: body, pace: p.pace(), timeout: p.o.BodyTimeout,
			until: deadline{of: control, lasts: r.ProtoMajor == 1},
			http1: r.ProtoMajor == 1, atEnd: trailers(in, r),
		}
		ctx = context.WithValue(ctx, bodyKey{}, answer.body)
		in.Body = answer.body
	}
	if len(in.Header["Upgrade"]) > 0 && httpguts.HeaderValuesContainsToken(in.Header["Connection"], "upgrade") {
		p.upgrade(answer, in)
	} else {
		p.carry(answer, p.outbound(ctx, in))
	}
	answer.end()
}

// upgrade carries a request for an upgrade, and what follows.
func (p *Proxy) upgrade(a *answer, in *http.Request) {
	ctx, cancel := context.WithCancelCause(in.Context())
	defer cancel(nil)
	a.interim.giveUp = cancel
	p.reverse.ServeHTTP(a, in.WithContext(ctx))
}

// carry carries a request to the upstream, and its answer back.
func (p *Proxy) carry(a *answer, out *http.Request) {
	if out.Body != nil {
		defer out.Body.Close()
	}
	res, conn, err := p.o.Transport.carry(out, &a.interim)
	p.deliver(out.Context(), a, out, res, conn, err)
}

// deliver passes an answer on, or answers a request that the upstream did not answer.
func (p *Proxy) deliver(ctx context.Context, a *answer, r *http.Request, res *http.Response, conn *upstream.Conn, err error) {
	a.interim.end()
	if err == nil {
		if err = checkStatus(res.StatusCode); err != nil {
			_ = res.Body.Close() // it is not passed on
		}
	}
	if err != nil {
		p.failed(ctx, a, r, err)
		return
	}
	p.pass(a, res, conn)
}

// fail answers a request that the upstream did not answer.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	p.failed(r.Context(), w.(*answer), r, err) // ServeHTTP gave it to the reverse proxy
}

// failed does the same for a request with another context.
func (p *Proxy) failed(ctx context.Context, a *answer, r *http.Request, err error) {
	f := failureOf(ctx, err)
	a.failed(f)
	if a.client.Err() != nil && f != BodyStalled {
		f = ClientGone
	}
	p.o.Failed(f)
	if f == ClientGone {
		// There is no client left to answer.
		panic(http.ErrAbortHandler)
	}
	p.log(r, f, err)
	problem(a, f.Status(), f.detail())
}

// log writes a failure to the log. It contains no path, no query and no header, in any of which a key may be, and
// nothing else that the client wrote.
func (p *Proxy) log(r *http.Request, f Failure, err error) {
	if f.Client() && f != Malformed {
		return
	}
	hidden, ok := p.o.Sample(f)
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 4)
	attrs = append(attrs, slog.String("problem", f.String()), slog.String("method", sampled.Brief(r.Method)))
	level, message := slog.LevelInfo, "a request is malformed"
	if !f.Client() {
		level, message = slog.LevelWarn, "the upstream gave no answer"
		attrs = append(attrs, slog.String("error", sampled.Brief(err.Error())))
	}
	if hidden > 0 {
		attrs = append(attrs, slog.Int("not_logged", hidden))
	}
	p.o.Logger.LogAttrs(r.Context(), level, message, attrs...)
}

// problem answers instead of the upstream.
func problem(w http.ResponseWriter, status int, detail string) {
	p := denial.Problem{Type: denial.TypeBlank, Title: http.StatusText(status), Status: status, Detail: detail}
	p.Write(w)
}

// peer returns the address at the other end of a request's connection.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}
