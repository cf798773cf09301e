package faults

import (
	"os"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4) // tests mostly wait for servers
	os.Exit(m.Run())
}
