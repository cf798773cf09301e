// Command bench-redis measures everything the bars about Redis speak of, in one
// run over one server that it starts itself: our store through both of its
// clients, the floors of package redisfloor and the peers of package redispeers.
// It prints the figures and whether each bar holds.
//
//	go -C checks run ./cmd/bench-redis [-quick] [-duration D] [-callers N,…] [-only REGEXP] [-o FILE] [-check] [-cpuprofile FILE]
//
// A full run takes about three minutes on two cores. Nothing else should run on
// the machine. The server is the program that SLUICE_REDIS_SERVER names, by path,
// and redis-server without it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/checks/figures"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-redis:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	cmd := figures.NewCommand("bench-redis", stderr)
	duration := cmd.Flags.Duration("duration", full.duration, "how long each subject is measured in each cell of a table, over all rounds; 50ms with -quick")
	callers := cmd.Flags.String("callers", callersText(full.callers), "how many ask at once, in the `columns` of the tables")
	check := cmd.Flags.Bool("check", false, "exit with status 1 if a bar does not hold")
	if err := cmd.Parse(args); err != nil {
		return err
	}
	size := full
	if cmd.Quick {
		size = short
	}
	cmd.Flags.Visit(func(f *flag.Flag) {
		if f.Name == "duration" {
			size.duration = *duration
		}
	})
	if size.duration <= 0 {
		return fmt.Errorf("-duration %v: give more than nothing, as 2s", size.duration)
	}
	if size.callers, err = parseCallers(*callers); err != nil {
		return err
	}

	endProfile, err := cmd.Profile()
	if err != nil {
		return err
	}
	defer endProfile()
	b, err := measure(ctx, size, cmd.Only, stderr)
	if err != nil {
		return err
	}
	bars := judge(b.results)
	if err := cmd.Publish(renderReport(b, cmd.Line(), bars), stdout); err != nil {
		return err
	}
	if n := figures.Failed(bars); n > 0 && *check {
		return fmt.Errorf("%d of %d bars do not hold", n, len(bars))
	}
	return nil
}

// measure runs every part.
func measure(ctx context.Context, s size, match *regexp.Regexp, progress io.Writer) (*bench, error) {
	start := time.Now()
	b, err := newBench(ctx, s, match)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		begun := time.Now()
		if err := p.measure(ctx, b); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", p.name, err), b.close())
		}
		fmt.Fprintf(progress, "%-10s %5.1f s\n", p.name, time.Since(begun).Seconds())
	}
	fmt.Fprintf(progress, "%-10s %5.1f s\n\n", "all", time.Since(start).Seconds())
	if err := b.close(); err != nil {
		return nil, err
	}
	return b, nil
}

// parseCallers reads numbers with commas between them.
func parseCallers(text string) ([]int, error) {
	var all []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 4096 {
			return nil, fmt.Errorf("-callers %q: %q is no number from 1 to 4096", text, word)
		}
		all = append(all, n)
	}
	return all, nil
}

func callersText(callers []int) string {
	words := make([]string, len(callers))
	for i, n := range callers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
