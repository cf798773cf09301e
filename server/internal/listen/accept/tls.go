package accept

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// openTLS returns the TLS configuration of a listener, nil without a certificate. Clients may choose
// one of the protocols. The files are read again when they change.
func (s *Servers) openTLS(p *NamedListener, protocols []string) (*tls.Config, error) {
	if p.TLS == nil {
		return nil, nil //nolint:nilnil // TLS may be off
	}
	var current atomic.Pointer[tls.Config]
	expiring := &expiring{logger: s.o.Logger, listener: p.Name}
	read := func() error {
		config, err := p.readTLS()
		if err != nil {
			return err
		}
		config.NextProtos = protocols
		current.Store(config)
		expiring.next.Store(0)
		expiring.served(config, time.Now())
		return nil
	}
	if err := s.o.Files.Read("the certificate of the "+p.Name+" listener", []string{p.TLS.Cert, p.TLS.Key, p.TLS.ClientCA}, read); err != nil {
		return nil, err
	}
	s.o.Metrics.Gauges("sluice_certificate_expiry_timestamp_seconds", "When the certificate of a listener expires, in Unix time.",
		"listener", []string{p.Name}, func(string) float64 {
			if leaf := current.Load().Certificates[0].Leaf; leaf != nil {
				return float64(leaf.NotAfter.Unix())
			}
			return 0
		})
	return &tls.Config{
		MinVersion: current.Load().MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config := current.Load()
			expiring.served(config, time.Now())
			return config, nil
		},
	}, nil
}

// readTLS reads the certificate of a listener.
func (p *NamedListener) readTLS() (*tls.Config, error) {
	at := p.Path() + ".tls"
	cert, err := secret.KeyPair(at, p.TLS.Cert, p.TLS.Key)
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if p.TLS.MinVersion == "1.3" {
		config.MinVersion = tls.VersionTLS13
	}
	if p.TLS.ClientCA != "" {
		var refused error
		config.ClientCAs, refused = secret.Authorities(at+".client_ca", p.TLS.ClientCA)
		err = errors.Join(err, refused)
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session would go on with a certificate of an authority that is no longer trusted.
		config.SessionTicketsDisabled = true
	}
	if err != nil {
		return nil, err
	}
	return config, nil
}

// handshaking is a protocol that reports the TLS handshakes that fail. OnHandshakeError is called before Serve.
type handshaking interface {
	OnHandshakeError(report func(error))
}

// handshakeErrors returns a function that counts the failed handshakes of a listener, and logs some of them.
func (s *Servers) handshakeErrors(listener string) func(error) {
	var count atomic.Uint64
	s.o.Metrics.Counters("sluice_tls_handshakes_failed_total", "TLS handshakes of clients that failed, such as without a certificate that is required.",
		"listener", []string{listener}, func(string) float64 { return float64(count.Load()) })
	failures := sampled.New(s.o.Logger)
	return func(err error) {
		count.Add(1)
		if !errors.Is(err, io.EOF) { // a probe of the port sends nothing
			failures.Info("a TLS handshake failed", "listener", listener, "error", sampled.Brief(err.Error()))
		}
	}
}

// expiryLine is how often the log has a line about a certificate that has expired.
const expiryLine = time.Hour

// expiring logs that a listener serves a certificate that is not valid now.
type expiring struct {
	logger   *slog.Logger
	listener string
	next     atomic.Int64 // when the next line may be written, in Unix nanoseconds
}

// served is called for each connection, and when the certificate is read.
func (e *expiring) served(config *tls.Config, now time.Time) {
	leaf := config.Certificates[0].Leaf
	if leaf == nil || !now.Before(leaf.NotBefore) && !now.After(leaf.NotAfter) {
		return
	}
	next := e.next.Load()
	if now.UnixNano() < next || !e.next.CompareAndSwap(next, now.Add(expiryLine).UnixNano()) {
		return
	}
	e.logger.Error("the certificate of a listener is not valid now, so clients refuse it; replace its file",
		"listener", e.listener, "not_before", leaf.NotBefore.UTC(), "not_after", leaf.NotAfter.UTC())
}
