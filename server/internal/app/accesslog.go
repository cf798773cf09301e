package app

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/logfile"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
)

// openAccessLog opens the access log of the configuration.
func (a *App) openAccessLog(fingerprint func(sluice.Key) string) error {
	f := &a.file.AccessLog
	if f.File == "" {
		return nil
	}
	var err error
	if a.accessFile, err = logfile.Open(f.File); err != nil {
		return fmt.Errorf("access_log.file: %w", err)
	}
	failures := sampled.New(a.logger)
	a.engine.access = accesslog.New(accesslog.Options{
		Out: a.accessFile, Combined: f.Format == "combined", Sample: float64(f.Sample), Fingerprint: fingerprint,
		ClientIP: a.clientIP,
		Failed:   func(err error) { failures.Error("the access log cannot be written", "error", err) },
	})
	a.metrics.Counter("sluice_access_log_lost_total", "Decisions that were not written to the access log, because the disk was too slow or failed.",
		func() float64 { return float64(a.engine.access.Lost()) })
	return nil
}

// clientIP returns the address of a request's client; invalid if it is unknown.
func (a *App) clientIP(r *http.Request) netip.Addr {
	addr, _ := a.ip.Addr(r)
	return addr
}

// closeAccessLog writes what is left, and closes the file.
func (a *App) closeAccessLog() {
	if a.engine != nil && a.engine.access != nil && !a.engine.access.Close() {
		a.logger.Error("the access log was not written to its end, because its reader takes nothing")
		return // the file is in use
	}
	if a.accessFile != nil {
		_ = a.accessFile.Close() // each line was written at once
	}
}
