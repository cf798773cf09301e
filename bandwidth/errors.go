package bandwidth

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
)

// errDeadline says that bytes would be let through after the context's deadline.
var errDeadline = fmt.Errorf("bandwidth: the context ends before these bytes may move: %w (%w)",
	sluice.ErrDeadline, context.DeadlineExceeded)

// RefusedError reports a store that answers that bytes may not move, now or later.
type RefusedError struct {
	// Limit is the name of the limiter.
	Limit string
	// Reason is the store's.
	Reason sluice.Reason
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("bandwidth: the store lets no bytes of limit %q pass: %v", e.Limit, e.Reason)
}
