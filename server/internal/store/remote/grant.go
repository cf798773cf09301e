package remote

import (
	"context"
	"time"

	"github.com/sluicehq/sluice/driver"
)

// returnTime is how long a draining server tries to return granted units. Units that it does not return count as used
// when their grants expire.
const returnTime = 2 * time.Second

var _ driver.Grantor = (*calls)(nil)

// Grant answers the claims of this process on units of keys.
func (r *calls) Grant(ctx context.Context, holder uint64, claims []driver.Claim, out []driver.Grant) {
	s, began, err := r.begin()
	if err != nil {
		for i := range out {
			out[i] = driver.Grant{Err: err}
		}
		return
	}
	defer func() { r.observe(time.Since(began)) }()
	s.Grant(ctx, holder, claims, out)
	for i := range out {
		_ = r.report(out[i].Err) // it stays in the answer
	}
}

// ReturnUnits returns the units that the store has granted to this process, so that other servers get them at once.
func (r *Store) ReturnUnits() {
	ctx, cancel := context.WithTimeout(context.Background(), returnTime)
	defer cancel()
	if err := r.hybrid.Drain(ctx); err != nil {
		r.logger.Warn("not all granted units were returned to the store; the rest counts as used when the grants expire", "error", err)
	}
}
