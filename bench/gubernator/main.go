// Gubernator is the program of processes of package fleet that decide as Gubernator does. Each process has
// a daemon, and all daemons are one cluster. Limits have the behavior GLOBAL: a daemon answers from its own
// cache, sends hits to the owner of the key later, and the owner sends the state to all.
//
// It is a module of its own, outside of go.work: Gubernator requires dozens of modules, which nothing else
// here needs. `make bench-hybrid` builds the program.
package main

import (
	"fmt"
	"os"

	"github.com/sluicehq/sluice/checks/fleet"
)

func main() {
	fleet.MainWith(map[string]fleet.New{fleet.Gubernator: start})
	fmt.Fprintln(os.Stderr, "gubernator: only a benchmark starts this program: run make bench-hybrid")
	os.Exit(2)
}
