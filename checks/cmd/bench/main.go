// Command bench measures everything that the bars on speed and memory need. It prints the figures and
// whether each bar holds. Option -part chooses what it measures:
//
//   - memory: decisions in memory, beside floors and peers;
//   - http: the net/http middleware, beside those of peers;
//   - api: calls of the decision API, beside a bare handler of the same JSON;
//   - doors: calls of gateways and other programs, beside the least that their protocols cost;
//   - proxy: requests through sluice serve, beside nginx, HAProxy, httputil.ReverseProxy and a floor;
//   - redis: decisions in Redis, over one server that it starts;
//   - hybrid: hybrid limits in eight processes over one server, beside exact limits.
//
// The usage is
//
//	go -C checks run ./cmd/bench [-part memory,http,api,proxy] [-quick] [-only REGEXP] [-o FILE] [-cpuprofile FILE]
//	go -C checks run ./cmd/bench -part redis [-duration D] [-callers N,…] [-check] […]
//	go -C checks run ./cmd/bench -part doors [-ratelimit PROGRAM] [-traefik PROGRAM] [-check] […]
//	go -C checks run ./cmd/bench -part hybrid [-plot FILE] [-gubernator PROGRAM] [-check] […]
//
// A full run of memory and http takes about six minutes on two cores and 4 GB, one of api about two, one of proxy about
// four, one of redis about three, one of hybrid about five, and one of doors about eleven. Nothing else should run on the
// machine. Bars of memory, http, api and proxy that do not hold make the exit status 1, bars of doors, redis and hybrid
// with -check.
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
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/cmd/bench/inprocess"
	"github.com/sluicehq/sluice/checks/cmd/bench/overapi"
	"github.com/sluicehq/sluice/checks/cmd/bench/overdoors"
	"github.com/sluicehq/sluice/checks/cmd/bench/overfleet"
	"github.com/sluicehq/sluice/checks/cmd/bench/overproxy"
	"github.com/sluicehq/sluice/checks/cmd/bench/overredis"
	"github.com/sluicehq/sluice/checks/fleet"
)

func main() {
	fleet.Main() // a process of the part hybrid
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command is the command line.
type command struct {
	api, proxy, doors           bool
	flags                       *flag.FlagSet
	memory, http, redis, hybrid bool
	quick, check                bool
	only                        *regexp.Regexp
	out, profile                string
	plot, gubernator            string
	ratelimit, traefik          string
	duration                    time.Duration
	callers                     []int
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	end, err := c.startProfile()
	if err != nil {
		return err
	}
	defer end()
	var texts []string
	failed, all := 0, 0
	report := func(r *figures.Report, err error, strict bool) error {
		if err != nil {
			return err
		}
		texts = append(texts, r.Text(c.line()))
		if strict {
			failed, all = failed+figures.Failed(r.Bars), all+len(r.Bars)
		}
		return nil
	}
	if c.memory || c.http {
		r, err := inprocess.Measure(inprocess.Options{Memory: c.memory, HTTP: c.http, Quick: c.quick, Only: c.only, Progress: stderr})
		if err := report(r, err, true); err != nil {
			return err
		}
	}
	if c.api {
		r, err := overapi.Measure(overapi.Options{Quick: c.quick, Only: c.only, Progress: stderr})
		if err := report(r, err, true); err != nil {
			return err
		}
	}
	if c.proxy {
		r, err := overproxy.Measure(overproxy.Options{Quick: c.quick, Only: c.only, Progress: stderr})
		if err := report(r, err, true); err != nil {
			return err
		}
	}
	if c.doors {
		r, err := overdoors.Measure(overdoors.Options{Quick: c.quick, Only: c.only, Ratelimit: c.ratelimit, Traefik: c.traefik, Progress: stderr})
		if err := report(r, err, c.check); err != nil {
			return err
		}
	}
	if c.redis {
		r, err := overredis.Measure(ctx, overredis.Options{
			Quick: c.quick, Duration: c.duration, Callers: c.callers, Only: c.only, Progress: stderr,
		})
		if err := report(r, err, c.check); err != nil {
			return err
		}
	}
	if c.hybrid {
		r, err := overfleet.Measure(ctx, overfleet.Options{
			Quick: c.quick, Only: c.only, Plot: c.plot, Gubernator: c.gubernator, Progress: stderr,
		})
		if err := report(r, err, c.check); err != nil {
			return err
		}
	}
	if err := c.publish(strings.Join(texts, "\n"), stdout); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d bars do not hold", failed, all)
	}
	return nil
}

// parse reads the command line, which holds flags only.
func parse(args []string, stderr io.Writer) (*command, error) {
	c := &command{flags: flag.NewFlagSet("bench", flag.ContinueOnError)}
	c.flags.SetOutput(stderr)
	var parts, only, callers string
	c.flags.StringVar(&parts, "part", "memory,http,api,proxy", "the `parts` to measure, of memory, http, api, proxy, doors, redis and hybrid")
	c.flags.BoolVar(&c.quick, "quick", false, "a short run with fewer keys, which shows that all works; its figures mean little")
	c.flags.StringVar(&only, "only", "", "measure only the `part/subject` pairs that match this regular expression, as in '(hot|keys).*/sluice'")
	c.flags.StringVar(&c.out, "o", "", "also write the report to this `file`, in Markdown")
	c.flags.StringVar(&c.profile, "cpuprofile", "", "write a processor profile of this program to this `file`")
	c.flags.DurationVar(&c.duration, "duration", 2*time.Second, "redis: how long each subject is measured in each cell of a table, over all rounds; 50ms with -quick")
	c.flags.StringVar(&callers, "callers", "1,16,64,256", "redis: the numbers of callers at once, which are the `columns` of the tables")
	c.flags.StringVar(&c.plot, "plot", "", "hybrid: write the plot to this `file`, as SVG")
	c.flags.StringVar(&c.gubernator, "gubernator", "", "hybrid: also measure this `program` of checks/gubernator")
	c.flags.StringVar(&c.ratelimit, "ratelimit", "", "doors: also measure this `program` of checks/ratelimit")
	c.flags.StringVar(&c.traefik, "traefik", "", "doors: also measure this `program` of checks/traefik")
	c.flags.BoolVar(&c.check, "check", false, "doors, redis, hybrid: exit with status 1 if a bar does not hold")
	if err := c.flags.Parse(args); err != nil {
		return nil, err
	}
	if c.flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see -help", c.flags.Arg(0))
	}
	for part := range strings.SplitSeq(parts, ",") {
		switch part {
		case "memory":
			c.memory = true
		case "http":
			c.http = true
		case "api":
			c.api = true
		case "proxy":
			c.proxy = true
		case "doors":
			c.doors = true
		case "redis":
			c.redis = true
		case "hybrid":
			c.hybrid = true
		default:
			return nil, fmt.Errorf("-part %q: choose from memory, http, api, proxy, doors, redis and hybrid", parts)
		}
	}
	given := map[string]bool{}
	c.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, name := range []string{"duration", "callers"} {
		if given[name] && !c.redis {
			return nil, fmt.Errorf("-%s needs -part redis", name)
		}
	}
	for _, name := range []string{"ratelimit", "traefik"} {
		if given[name] && !c.doors {
			return nil, fmt.Errorf("-%s needs -part doors", name)
		}
	}
	if given["check"] && !c.redis && !c.hybrid && !c.doors {
		return nil, errors.New("-check needs -part doors, -part redis or -part hybrid")
	}
	for _, name := range []string{"plot", "gubernator"} {
		if given[name] && !c.hybrid {
			return nil, fmt.Errorf("-%s needs -part hybrid", name)
		}
	}
	if c.duration <= 0 {
		return nil, fmt.Errorf("-duration %v: give a positive duration, such as 2s", c.duration)
	}
	if !given["duration"] {
		c.duration = 0 // as the run's size has it
	}
	var err error
	if c.callers, err = parseCallers(callers); err != nil {
		return nil, err
	}
	if c.only, err = regexp.Compile(only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	return c, nil
}

// parseCallers reads numbers that are separated by commas.
func parseCallers(text string) ([]int, error) {
	var all []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 4096 {
			return nil, fmt.Errorf("-callers %q: %q is not a number from 1 to 4096", text, word)
		}
		all = append(all, n)
	}
	return all, nil
}

// startProfile starts the profile, if there is to be one. end ends it.
func (c *command) startProfile() (end func(), err error) {
	if c.profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(c.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // an incomplete profile is seen when it is read
	}, nil
}

// publish writes the report to the output, and to the file of -o.
func (c *command) publish(report string, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, report); err != nil {
		return err
	}
	if c.out == "" {
		return nil
	}
	return os.WriteFile(c.out, []byte(report), 0o644)
}

// line returns the command line that measures the same. It omits the flags that do not change what is
// measured.
func (c *command) line() string {
	line := "go -C checks run ./cmd/bench"
	c.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "o", "cpuprofile", "check", "plot":
		case "quick":
			line += " -quick"
		case "only":
			line += " -only '" + f.Value.String() + "'"
		default:
			line += " -" + f.Name + " " + f.Value.String()
		}
	})
	return line
}
