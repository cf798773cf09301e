package faults

import (
	"log"
	"os"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(6) // tests mostly wait for servers
	if err := redistest.ReserveFiles(); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}
