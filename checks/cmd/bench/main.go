// Command bench measures everything the speed and memory bars speak of, in one
// run: our memory store and net/http middleware, the floors of package floor
// and the peers of package peers. It prints the figures and whether each bar
// holds, and exits with status 1 if one does not.
//
//	go -C checks run ./cmd/bench [-quick] [-only REGEXP] [-o FILE] [-cpuprofile FILE]
//
// A full run takes about six minutes on two cores and 4 GB. Nothing else
// should run on the machine.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/sluicehq/sluice/checks/figures"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// memoryLimit keeps a run whose collector is off from filling the machine.
const memoryLimit = 10 << 30

func run(args []string, stdout, stderr io.Writer) error {
	cmd := figures.NewCommand("bench", stderr)
	if err := cmd.Parse(args); err != nil {
		return err
	}
	debug.SetMemoryLimit(memoryLimit)
	b := &bench{size: full, match: cmd.Only, progress: stderr, results: figures.Results{}}
	if cmd.Quick {
		b.size = short
	}
	endProfile, err := cmd.Profile()
	if err != nil {
		return err
	}
	defer endProfile()
	start := time.Now()
	for _, p := range parts {
		begun := time.Now()
		if err := p.measure(b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(stderr, "%-10s %5.1f s\n", p.name, time.Since(begun).Seconds())
	}
	fmt.Fprintf(stderr, "%-10s %5.1f s\n\n", "all", time.Since(start).Seconds())

	bars := judge(b.results)
	if err := cmd.Publish(renderReport(b, cmd.Line(), bars), stdout); err != nil {
		return err
	}
	if n := figures.Failed(bars); n > 0 {
		return fmt.Errorf("%d of %d bars do not hold", n, len(bars))
	}
	return nil
}
