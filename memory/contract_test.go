package memory_test

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
		t.Helper()
		return newStore(t, memory.Options{Clock: clock.Now})
	}, storetest.TimeGoesBack())
}
