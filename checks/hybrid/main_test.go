package hybrid

import (
	"os"
	"testing"

	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) {
	fleet.Main()          // a process of a test
	redistest.Parallel(2) // eight processes each
	os.Exit(m.Run())
}
