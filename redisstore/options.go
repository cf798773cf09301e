package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Options are the settings of a store. The zero value is a good one.
type Options struct {
	// Prefix begins every key that the store writes. Programs that share limits have
	// the same prefix. It holds no braces. Default: "sluice".
	Prefix string
	// Secret, if set, hashes keys with HMAC-SHA-256 under it, so that no raw identifier is
	// stored. Programs that share limits have the same secret. At least 16 bytes.
	Secret []byte
	// Tenant, if set, returns the part of a key by which its slot in a cluster is
	// chosen: all keys of one tenant are on one node then, and any batch of them is one call.
	// Default: the key itself, so that all limits of a key share a slot.
	Tenant func(k sluice.Key) string
	// Clock tells this computer's time in microseconds since the Unix epoch. It is no
	// more than a guess at the server's, around which the boundaries of calendars are looked up; all
	// decisions are made by the server's. Default: the wall clock.
	Clock func() int64
	// Cluster says that the client speaks to a cluster, where a batch takes one call for
	// each slot. The adapters set it.
	Cluster bool
}

// maxPrefix bounds the prefix, which every key repeats.
const maxPrefix = 128

func (o *Options) complete() error {
	if o.Prefix == "" {
		o.Prefix = "sluice"
	}
	if strings.ContainsAny(o.Prefix, "{}") || len(o.Prefix) > maxPrefix {
		return fmt.Errorf("redisstore: Options.Prefix is %q; give up to %d bytes without braces, which choose the slot in a cluster", o.Prefix, maxPrefix)
	}
	if len(o.Secret) > 0 && len(o.Secret) < 16 {
		return errors.New("redisstore: Options.Secret is shorter than 16 bytes, which can be guessed; give 16 random bytes or more")
	}
	if o.Clock == nil {
		o.Clock = func() int64 { return time.Now().UnixMicro() }
	}
	return nil
}
