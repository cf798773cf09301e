package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/writable"
)

// kept keeps a copy of the configuration that runs, by Options.Keep.
type kept struct {
	mu     sync.Mutex
	file   *config.File // that should be kept
	failed error        // why it is not; nil if it is
}

// keepRetry is how often a copy that could not be saved is tried again.
const keepRetry = 3 * time.Second

// keep saves a configuration that runs. If that fails, the error is in the log, the metrics and the answer of the readiness
// probe, and runKept tries again.
func (a *App) keep(f *config.File) error {
	if a.o.Keep == nil {
		return nil
	}
	k := &a.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file, k.failed = f, a.o.Keep(f)
	if k.failed != nil {
		a.logger.Error("the next start has no current copy of the configuration; it is saved when that is possible", "error", k.failed)
	}
	return k.failed
}

// keepFirst is keep for a server that starts. Only a full disk does not end the start.
func (a *App) keepFirst() error {
	if a.o.Keep == nil {
		return nil
	}
	a.metrics.Gauge("sluice_last_good_saved", "Whether the copy of the last configuration that ran is current: 0 if the next start would lack it.",
		func() float64 {
			if a.kept.status() != "" {
				return 0
			}
			return 1
		})
	if a.o.Refused != nil {
		return nil //nolint:nilerr // the copy itself runs, in place of the refused file
	}
	if err := a.keep(a.file); !writable.Full(err) {
		return err
	}
	return nil
}

// runKept saves the configuration again after a failure, until the context ends.
func (a *App) runKept(ctx context.Context) {
	tick := time.NewTicker(keepRetry)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.keepAgain()
		}
	}
}

func (a *App) keepAgain() {
	k := &a.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		return
	}
	if k.failed = a.o.Keep(k.file); k.failed == nil {
		a.logger.Info("the copy of the configuration is saved")
	}
}

// status is a line for the readiness probe, empty while there is a current copy.
func (k *kept) status() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		return ""
	}
	return fmt.Sprintf("last-good: %v", k.failed)
}
