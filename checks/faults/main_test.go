package faults

import (
	"os"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(6) // tests mostly wait for servers
	os.Exit(m.Run())
}
