package bandwidth

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/sluicehq/sluice"
)

const (
	// BurstTime is how much of its rate a flow that was idle moves at once.
	BurstTime = 30 * time.Millisecond
	// ChunkTime is how much of the rate a connection is given at a time.
	ChunkTime = 20 * time.Millisecond
)

// Options are the settings of a Limiter.
type Options struct {
	// Store keeps what each key has used. Required.
	Store sluice.Store
	// Name is the name of the limit in the store. Limiters with the same name share the
	// budgets of their keys. Default: a name from the numbers.
	Name string
	// Rate is how many bytes each key may move. Required.
	Rate sluice.Rate
	// OnStoreError is called when the store fails, with the context of the reader or writer.
	// The read or write fails with the error that it returns. If it returns nil, a chunk moves
	// without payment. It must be safe for concurrent use. Default: return the error.
	OnStoreError func(ctx context.Context, err error) error
}

// Limiter is a rate of bytes for each key. It is safe for concurrent use, for any
// number of keys.
type Limiter struct {
	store   sluice.Store
	limit   *sluice.Limit
	rate    sluice.Rate
	chunk   int64
	onError func(ctx context.Context, err error) error
}

// NewLimiter returns a limiter. For a rate that cannot be counted, the error is a
// *sluice.LimitError.
func NewLimiter(o Options) (*Limiter, error) {
	if o.Store == nil {
		return nil, errors.New("bandwidth: Options.Store is missing; give one, such as memory.New returns")
	}
	if o.OnStoreError == nil {
		o.OnStoreError = func(_ context.Context, err error) error { return err }
	}
	limit, err := sluice.NewLimit(o.Name, sluice.TokenBucket{
		Rate: o.Rate, Burst: bytesIn(o.Rate, BurstTime),
		Debt: 1, // settling never charges more
	})
	if err != nil {
		return nil, fmt.Errorf("bandwidth: %w", err)
	}
	return &Limiter{
		store: o.Store, limit: limit, rate: o.Rate,
		chunk: min(bytesIn(o.Rate, ChunkTime), limit.Capacity()), onError: o.OnStoreError,
	}, nil
}

// Rate returns the rate of bytes.
func (l *Limiter) Rate() sluice.Rate { return l.rate }

// Limit returns the limit that the store decides: a token bucket of bytes.
func (l *Limiter) Limit() *sluice.Limit { return l.limit }

// Flow returns the bytes of a key, which all connections of the key share.
func (l *Limiter) Flow(key sluice.Key) Flow { return Flow{l, key} }

// Flow is the bytes of one key. It is a value, and safe for concurrent use. The zero
// Flow is not bounded.
type Flow struct {
	limiter *Limiter
	key     sluice.Key
}

// IsZero reports whether f is the zero Flow.
func (f Flow) IsZero() bool { return f.limiter == nil }

// bytesIn returns how many whole bytes a rate gives in some time, from 1 to mostBytes. For an
// invalid rate it returns 1; NewLimit reports the mistake.
func bytesIn(r sluice.Rate, d time.Duration) int64 {
	if r.Count() < 1 || r.Period() < 1 {
		return 1
	}
	hi, lo := bits.Mul64(uint64(r.Count()), uint64(d))
	if hi >= uint64(r.Period()) {
		return mostBytes
	}
	n, _ := bits.Div64(hi, lo, uint64(r.Period()))
	return int64(min(max(n, 1), mostBytes))
}

// mostBytes bounds how many bytes move at once: 4 GiB.
const mostBytes = 1 << 32

// errDeadline reports bytes that may move only after the context's deadline.
var errDeadline = fmt.Errorf("bandwidth: the context ends before these bytes may move: %w", sluice.ErrDeadline)

// RefusedError reports that the store refuses bytes, and a wait does not help.
type RefusedError struct {
	// Limit is the name of the limiter.
	Limit string
	// Reason is the reason of the store's decision.
	Reason sluice.Reason
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("bandwidth: the store lets no bytes of limit %q pass: %v", e.Limit, e.Reason)
}
