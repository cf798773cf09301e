package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// kept keeps a copy of the configuration that runs. A nil kept keeps none.
type kept struct {
	save   func(*config.File) error // see Options.Keep
	logger *slog.Logger

	mu     sync.Mutex
	file   *config.File // that should be kept
	failed error        // why it is not; nil if it is
}

// keepRetry is how often a copy that could not be saved is tried again.
const keepRetry = 3 * time.Second

// newKept returns nil without a function that saves.
func newKept(o *Options, m *telemetry.Metrics) *kept {
	if o.Keep == nil {
		return nil
	}
	k := &kept{save: o.Keep, logger: o.Logger}
	m.Gauge("sluice_last_good_saved", "Whether the copy of the last configuration that ran is current: 0 if the next start would lack it.",
		func() float64 {
			if k.status() != "" {
				return 0
			}
			return 1
		})
	return k
}

// keep saves a configuration that runs. If that fails, the error is in the log, the metrics and the answer of the readiness
// probe, and run tries again.
func (k *kept) keep(f *config.File) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file, k.failed = f, k.save(f)
	if k.failed != nil {
		k.logger.Error("the next start has no current copy of the configuration; it is saved when that is possible", "error", k.failed)
	}
	return k.failed
}

// run saves the configuration again after a failure, until the context ends.
func (k *kept) run(ctx context.Context) {
	if k == nil {
		return
	}
	tick := time.NewTicker(keepRetry)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.keepAgain()
		}
	}
}

func (k *kept) keepAgain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		return
	}
	if k.failed = k.save(k.file); k.failed == nil {
		k.logger.Info("the copy of the configuration is saved")
	}
}

// status is a line for the readiness probe, empty while there is a current copy.
func (k *kept) status() string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		return ""
	}
	return fmt.Sprintf("last-good: %v", k.failed)
}
