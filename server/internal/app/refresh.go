package app

import (
	"fmt"

	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// RefreshFiles returns the files that Refresh reads.
func (a *App) RefreshFiles() []string { return a.files.Names() }

// Refresh reads certificates and tokens again if their files have changed. Connections that are made from then on
// use the new certificates, and requests the new tokens. What cannot be read stays as it was; the error is in
// the log and the metrics too. Refresh is safe for concurrent use.
func (a *App) Refresh() error {
	err := a.files.Refresh(func(what string, err error) {
		a.audit.Refreshed(what, err)
		if err != nil {
			a.o.Logger.Error("files have changed and are refused; the previous content stays in use", "of", what, "error", err)
			return
		}
		a.o.Logger.Info("files have changed, and their new content is in use", "of", what)
	})
	if err != nil {
		return fmt.Errorf("sluice: %w", err)
	}
	return nil
}

// publishFiles publishes the metrics of files that are read again.
func publishFiles(m *telemetry.Metrics, files *secret.Files) {
	m.Counters("sluice_file_refreshes_total", "Changes of files of certificates and tokens, by outcome.",
		"outcome", []string{"applied", "refused"}, func(outcome string) float64 {
			applied, refused, _ := files.Stats()
			if outcome == "applied" {
				return float64(applied)
			}
			return float64(refused)
		})
	m.Gauge("sluice_files_refused", "Certificates and tokens whose current files are refused, so that the previous content is in use.",
		func() float64 {
			_, _, failing := files.Stats()
			return float64(failing)
		})
}
