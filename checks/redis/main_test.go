package redis

import (
	"fmt"
	"os"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

// childEnv names what a process that a test has started does in place of tests.
const childEnv = "SLUICE_CHECKS_CHILD"

// children are the programs that tests start as processes of their own.
var children = map[string]func() error{
	"attempts": attempts,
	"holder":   holder,
}

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		redistest.Parallel(4) // tests mostly wait for servers
		os.Exit(m.Run())
	}
	if err := children[name](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
