package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/config"
)

// CheckSettings reads the secrets and certificates of a configuration.
func CheckSettings(f *config.RedisStore) error {
	_, err1 := clientOptions(f)
	_, err2 := storeOptions(f)
	return errors.Join(err1, err2)
}

// Check connects to the store of a configuration, and decides there under a key of its own. It returns
// what it found. The memory store needs no check.
func Check(ctx context.Context, f *config.File) (report redisstore.Report, err error) {
	if f.Store.Redis == nil {
		return report, nil
	}
	r, err := prepareRedis(f.Store.Redis, slog.New(slog.DiscardHandler))
	if err != nil {
		return report, err
	}
	defer r.Close()
	if report, err = r.connect(ctx, connectPatience); err != nil {
		err = r.diagnose(ctx, err)
	}
	return report, err
}

// Address describes the server of a configuration.
func Address(r *config.RedisStore) string {
	switch {
	case r.Sentinel != nil:
		return fmt.Sprintf("%s by the sentinels %s", r.Sentinel.Master, strings.Join(r.Sentinel.Addresses, ", "))
	case r.Socket != "":
		return r.Socket
	case r.Cluster:
		return "the cluster of " + strings.Join(r.Addresses, ", ")
	default:
		return strings.Join(r.Addresses, ", ")
	}
}
