package decisions

import (
	"os"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(3) // a test and its server work in turn
	os.Exit(m.Run())
}
