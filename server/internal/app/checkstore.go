package app

import (
	"context"
	"log/slog"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/redisstore"
)

// CheckStore connects to the store of a configuration, and decides there under a key
// of its own. It reports what it has found; there is nothing to find in memory.
func CheckStore(ctx context.Context, f *policyfile.File) (report redisstore.Report, err error) {
	if f.Store.Redis == nil {
		return report, nil
	}
	r, err := prepareRedis(f.Store.Redis, slog.New(slog.DiscardHandler))
	if err != nil {
		return report, err
	}
	defer r.close()
	if report, err = r.connect(ctx, connectPatience); err != nil {
		err = r.diagnose(ctx, err)
	}
	return report, err
}
