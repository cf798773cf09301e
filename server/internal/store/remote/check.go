package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/sluicehq/sluice/redisstore"
)

// CheckSettings reads the secrets and certificates of a configuration.
func CheckSettings(f *Settings) error {
	_, err1 := clientOptions(f)
	_, err2 := storeOptions(f)
	return errors.Join(err1, err2)
}

// Check connects to the store of a configuration, and decides there under a key of its own. It returns
// what it found.
func Check(ctx context.Context, f *Settings) (report redisstore.Report, err error) {
	r, err := prepareRedis(f, slog.New(slog.DiscardHandler))
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
func Address(r *Settings) string {
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
