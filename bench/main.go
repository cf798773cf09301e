// Command bench measures everything that the bars on speed and memory need. It prints the figures and
// whether each bar holds. Option -part chooses what it measures:
//
//   - memory: decisions in memory, beside floors and peers;
//   - http: the net/http middleware, beside those of peers;
//   - api: calls of the decision API, beside a bare handler of the same JSON;
//   - changes: overrides by call: changes in a second, and the start of a server with many;
//   - doors: calls of gateways and other programs, beside the least that their protocols cost;
//   - proxy: requests through sluice serve, beside nginx, HAProxy, httputil.ReverseProxy and a floor;
//   - redis: decisions in Redis, over one server that it starts;
//   - hybrid: hybrid limits in eight processes over one server, beside exact limits.
//
// The usage is
//
//	go -C bench run . [-part memory,http,api,changes,proxy] [-quick] [-only REGEXP] [-check] [-o PAGE] [-cpuprofile FILE]
//	go -C bench run . -part redis [-duration D] [-callers N,…] […]
//	go -C bench run . -part doors [-ratelimit PROGRAM] [-traefik PROGRAM] […]
//	go -C bench run . -part hybrid [-plot FILE] [-gubernator PROGRAM] […]
//
// A full run of memory and http takes about six minutes on two cores and 4 GB, one of api about two, one of changes about
// three, one of proxy about four, one of redis about three, one of hybrid about five, and one of doors about eleven.
// Nothing else should run on the machine. With -o, the command replaces the parts that it measured in a page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/inprocess"
	"github.com/sluicehq/sluice/bench/overapi"
	"github.com/sluicehq/sluice/bench/overchanges"
	"github.com/sluicehq/sluice/bench/overdoors"
	"github.com/sluicehq/sluice/bench/overfleet"
	"github.com/sluicehq/sluice/bench/overproxy"
	"github.com/sluicehq/sluice/bench/overredis"
	"github.com/sluicehq/sluice/checks/fleet"
)

func main() {
	fleet.Main() // a process of the part hybrid
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, parts(), os.Args[1:], os.Stdout, os.Stderr, time.Now())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parts returns all parts, in the order in which they run.
func parts() []figures.Part {
	return []figures.Part{
		inprocess.Memory(), inprocess.HTTP(), overapi.New(), overchanges.New(), overproxy.New(), overdoors.New(), overredis.New(), overfleet.New(),
	}
}

// command is the command line.
type command struct {
	flags        *flag.FlagSet
	owner        map[string]figures.Part // of the flags that one part has
	parts        []figures.Part          // the chosen ones
	options      figures.Options
	check        bool
	out, profile string
}

func run(ctx context.Context, all []figures.Part, args []string, stdout, stderr io.Writer, now time.Time) error {
	c, err := parse(all, args, stderr)
	if err != nil {
		return err
	}
	end, err := c.startProfile()
	if err != nil {
		return err
	}
	defer end()
	var reports []*figures.Report
	failed, judged := 0, 0
	for _, p := range c.parts {
		if err := p.Run(ctx, c.options); err != nil {
			return fmt.Errorf("%s: %w", p.Name(), err)
		}
		r := p.Report()
		r.Bars, r.Short, r.Command, r.Machine, r.Day = p.Bars(), c.options.Quick, c.line(p), figures.Machine(), now
		failed, judged = failed+figures.Failed(r.Bars), judged+len(r.Bars)
		if reports = append(reports, r); len(reports) > 1 {
			fmt.Fprintln(stdout)
		}
		if _, err := io.WriteString(stdout, r.Text()); err != nil {
			return err
		}
	}
	if err := c.publish(reports); err != nil {
		return err
	}
	if c.check && failed > 0 {
		return fmt.Errorf("%d of %d bars do not hold", failed, judged)
	}
	return nil
}

// parse reads the command line, which holds flags only.
func parse(all []figures.Part, args []string, stderr io.Writer) (*command, error) {
	c := &command{flags: flag.NewFlagSet("bench", flag.ContinueOnError), owner: map[string]figures.Part{}}
	c.flags.SetOutput(stderr)
	var names []string
	for _, p := range all {
		names = append(names, p.Name())
		own := flag.NewFlagSet(p.Name(), flag.ContinueOnError)
		p.Flags(own)
		own.VisitAll(func(f *flag.Flag) {
			c.owner[f.Name] = p
			c.flags.Var(f.Value, f.Name, p.Name()+": "+f.Usage)
		})
	}
	list := strings.Join(names, ", ")
	chosen := c.flags.String("part", "memory,http,api,changes,proxy", "the `parts` to measure, of "+list)
	c.flags.BoolVar(&c.options.Quick, "quick", false, "a short run with fewer keys, which shows that all works; its figures mean little")
	c.flags.Func("only", "measure only the `step/subject` pairs that match this regular expression, as in '(hot|keys).*/sluice'", func(text string) (err error) {
		c.options.Only, err = regexp.Compile(text)
		return err
	})
	c.flags.BoolVar(&c.check, "check", false, "exit with status 1 if a bar does not hold")
	c.flags.StringVar(&c.out, "o", "", "replace the measured parts in the page of this `file`, in Markdown")
	c.flags.StringVar(&c.profile, "cpuprofile", "", "write a processor profile of this program to this `file`")
	c.options.Progress = stderr
	if err := c.flags.Parse(args); err != nil {
		return nil, err
	}
	if c.flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see -help", c.flags.Arg(0))
	}
	wanted := strings.Split(*chosen, ",")
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("-part %q: choose from %s", *chosen, list)
		}
	}
	for _, p := range all {
		if slices.Contains(wanted, p.Name()) {
			c.parts = append(c.parts, p)
		}
	}
	var err error
	c.flags.Visit(func(f *flag.Flag) {
		if p := c.owner[f.Name]; p != nil && !slices.Contains(c.parts, p) {
			err = errors.Join(err, fmt.Errorf("-%s needs -part %s", f.Name, p.Name()))
		}
	})
	return c, err
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

// publish writes the reports to the page of -o.
func (c *command) publish(reports []*figures.Report) error {
	if c.out == "" {
		return nil
	}
	old, err := os.ReadFile(c.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(c.out, []byte(figures.Page(string(old), reports)), 0o644)
}

// line returns the command line that measures a part in the same way. It omits the flags that do not change what is
// measured.
func (c *command) line(p figures.Part) string {
	line := "go -C bench run . -part " + p.Name()
	c.flags.Visit(func(f *flag.Flag) {
		switch {
		case f.Name == "quick":
			line += " -quick"
		case f.Name == "only":
			line += " -only '" + c.options.Only.String() + "'"
		case c.owner[f.Name] == p:
			line += " -" + f.Name + " " + f.Value.String()
		}
	})
	return line
}
