package app

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/sampled"
)

// handshaking is a protocol that reports the TLS handshakes that fail. OnHandshakeError is called before Serve.
type handshaking interface {
	OnHandshakeError(report func(error))
}

// handshakeErrors returns a function that counts the failed handshakes of a listener, and logs some of them.
func (a *App) handshakeErrors(listener string) func(error) {
	var count atomic.Uint64
	a.metrics.Counters("sluice_tls_handshakes_failed_total", "TLS handshakes of clients that failed, such as without a certificate that is required.",
		"listener", []string{listener}, func(string) float64 { return float64(count.Load()) })
	failures := sampled.New(a.logger)
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

// headerFailed counts and logs a connection of a balancer without a valid header.
func (a *App) headerFailed(err error) {
	a.headerless.Add(1)
	a.headerLog.Warn("a trusted proxy did not begin a connection with a valid header of the PROXY protocol", "error", err)
}
