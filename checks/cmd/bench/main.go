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
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
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
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "a short run with fewer keys, to see that all works; its figures mean little")
	only := flags.String("only", "", "measure only the `part/subject` pairs that match this regular expression, as in 'uniform|hot.*/sluice'")
	out := flags.String("o", "", "also write the report to this `file`, in Markdown")
	profile := flags.String("cpuprofile", "", "write a processor profile of the measurements to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -help", flags.Arg(0))
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}

	debug.SetMemoryLimit(memoryLimit)
	b := &bench{size: full, match: match, progress: stderr, results: figures.Results{}}
	if *quick {
		b.size = short
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
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
	report := renderReport(b, commandLine(flags), bars)
	if _, err := io.WriteString(stdout, report); err != nil {
		return err
	}
	if *out != "" {
		if err := os.WriteFile(*out, []byte(report), 0o644); err != nil {
			return err
		}
	}
	if n := figures.Failed(bars); n > 0 {
		return fmt.Errorf("%d of %d bars do not hold", n, len(bars))
	}
	return nil
}

// commandLine returns the command that measures the same, without the flags
// that only say where to write.
func commandLine(flags *flag.FlagSet) string {
	line := "go -C checks run ./cmd/bench"
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "quick":
			line += " -quick"
		case "only":
			line += " -only '" + f.Value.String() + "'"
		}
	})
	return line
}
