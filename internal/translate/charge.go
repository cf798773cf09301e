package translate

import (
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// CheckCancel reports why a charge cannot be cancelled, or nil.
func CheckCancel(c *sluice.Charge) error {
	if c.Limit == nil {
		return &sluice.RequestError{Problem: "the charge has no limit"}
	}
	return nil
}

// CheckSettle reports why a charge cannot be settled at an actual cost, or nil.
func CheckSettle(c *sluice.Charge, actual int64) error {
	if err := CheckCancel(c); err != nil {
		return err
	}
	switch {
	case actual < 0:
		return &sluice.RequestError{Limit: c.Limit.Name(), Problem: "the actual cost is negative; give 0 or more"}
	case c.Limit.Params().Kind == algo.KindConcurrency:
		return fmt.Errorf("%w: limit %q grants leases, which are released, not settled", sluice.ErrUnsupported, c.Limit.Name())
	}
	return nil
}

// CheckRelease reports why a charge is no lease to be released, or nil.
func CheckRelease(c *sluice.Charge) error {
	if err := CheckCancel(c); err != nil {
		return err
	}
	if c.Limit.Params().Kind != algo.KindConcurrency {
		return fmt.Errorf("%w: limit %q grants no leases", sluice.ErrUnsupported, c.Limit.Name())
	}
	return nil
}
