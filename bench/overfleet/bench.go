// Package overfleet measures hybrid limits in processes that share a Redis server, beside exact limits,
// limits of each process by itself, a naive store that counts locally and synchronises now and then, and
// Gubernator, if it is given that program. It starts the processes and the server; package fleet has the
// subjects.
package overfleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// processes is the number of processes that share the limits.
const processes = 8

// naiveSync is how often the subjects naive and gubernator synchronise: as often as hybrid limits by default.
const naiveSync = 100 * time.Millisecond

// size is how much a run measures.
type size struct {
	rounds int
	length time.Duration // of a race
	warm   time.Duration // before a race about many keys
	admit  time.Duration // how long what is admitted is counted
	plot   int           // the number of windows in the plot
	local  int           // decisions in a round of the step local
}

var (
	full  = size{rounds: 3, length: 1500 * time.Millisecond, warm: 3 * time.Second, admit: 10 * time.Second, plot: 8, local: 1_000_000}
	short = size{rounds: 1, length: 100 * time.Millisecond, warm: 50 * time.Millisecond, admit: 600 * time.Millisecond, plot: 2, local: 10_000}
)

// bench is one run.
type bench struct {
	size
	figures.Options
	// The file to write the plot to, and the program of bench/gubernator. Empty to leave them out.
	plotFile, gubernator string

	server  *redistest.Server
	version string
	dir     string
	results figures.Results
	quiet   []float64
	failed  map[string]string // metric-subject → the first error
	curves  []curve
	count   int // of names that were made
}

// New returns the part.
func New() figures.Part {
	return &bench{size: full, results: figures.Results{}, failed: map[string]string{}}
}

func (*bench) Name() string { return "hybrid" }

// Flags implements figures.Part.
func (b *bench) Flags(f *flag.FlagSet) {
	f.StringVar(&b.plotFile, "plot", "", "write the plot to this `file`, as SVG")
	f.StringVar(&b.gubernator, "gubernator", "", "also measure this `program` of bench/gubernator")
}

// Run runs every step over a server that it starts.
func (b *bench) Run(ctx context.Context, o figures.Options) (err error) {
	b.Options = o
	if o.Quick {
		b.size = short
	}
	if b.server, err = redistest.New(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "overfleet"); err != nil {
		return errors.Join(err, b.server.Close())
	}
	err = b.measure(ctx)
	return errors.Join(err, b.server.Close(), os.RemoveAll(b.dir))
}

func (b *bench) measure(ctx context.Context) error {
	info, err := b.server.Info(ctx, "server")
	if err != nil {
		return err
	}
	b.version = "Redis " + info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		b.version = "Valkey " + v
	}
	timer := figures.StartTimer(b.Progress)
	for _, p := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"local", b.measureLocal},
		{"hot", func(ctx context.Context) error { return b.measureRace(ctx, "hot", 1) }},
		{"zipf", func(ctx context.Context) error { return b.measureRace(ctx, "zipf", zipfKeys) }},
		{"twice", b.measureTwice},
		{"low", b.measureLow},
		{"plot", b.measurePlot},
	} {
		if err := p.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		timer.Step(p.name)
	}
	timer.All()
	return nil
}

// wants reports whether to measure this step and subject.
func (b *bench) wants(step, subject string) bool {
	if b.gubernator == "" && (subject == fleet.Gubernator || subject == leaky) {
		return false
	}
	return b.Wants(step, subject)
}

// route is the route to the server.
func (b *bench) route() fleet.Route { return fleet.Route{Addrs: []string{b.server.Addr()}} }

// name returns another name in each call, so that no two measurements share state.
func (b *bench) name(step string) string {
	b.count++
	return step + strconv.Itoa(b.count)
}

// ledger returns the path of a new ledger.
func (b *bench) ledger() string { return filepath.Join(b.dir, b.name("ledger")) }

// specs returns the processes of a subject, with these loads in all of them.
func (b *bench) specs(subject string, loads func(process int) []fleet.Load) ([]fleet.Spec, error) {
	if subject == slowly {
		subject = fleet.Hybrid
	}
	var peers []string
	var program string
	if subject == fleet.Gubernator || subject == leaky {
		subject = fleet.Gubernator
		var err error
		if peers, err = addresses(processes); err != nil {
			return nil, err
		}
		program = b.gubernator
	}
	all := make([]fleet.Spec, processes)
	for i := range all {
		all[i] = fleet.Spec{
			Subject: subject, Route: b.route(), Loads: loads(i),
			Seed: uint64(b.count*processes + i), Sync: naiveSync, Deadline: time.Second,
			Peers: peers, Peer: i, Program: program,
		}
	}
	return all, nil
}

// addresses returns free addresses of this machine.
func addresses(n int) (all []string, err error) {
	var taken []net.Listener // until all are found, so that they differ
	for range n {
		l, listenErr := net.Listen("tcp", "127.0.0.1:0")
		if listenErr != nil {
			err = listenErr
			break
		}
		taken = append(taken, l)
		all = append(all, l.Addr().String())
	}
	for _, l := range taken {
		err = errors.Join(err, l.Close())
	}
	return all, err
}

// slowly names hybrid limits that synchronise once a second. So more keys have enough requests between two
// synchronisations to be granted.
const slowly = "hybrid, sync 1s"

// leaky names Gubernator's leaky buckets, which admit what our token buckets do. Its token buckets, which it
// has by default, are fixed windows that the first request opens.
const leaky = "gubernator, leaky"

// hybridly returns the terms that the subject needs.
func hybridly(t fleet.Terms, subject string) fleet.Terms {
	switch subject {
	case fleet.Hybrid:
		t.Hybrid = &sluice.Hybrid{}
	case slowly:
		t.Hybrid = &sluice.Hybrid{Sync: time.Second}
	case fleet.Gubernator:
		t.Algorithm = "opened"
	}
	return t
}

// with runs processes while do works.
func with(specs []fleet.Spec, do func([]*fleet.Process) error) error {
	all, err := fleet.StartAll(specs)
	if err == nil {
		err = do(all)
	}
	for _, p := range all {
		if err == nil {
			err = p.End()
		}
		_ = p.Kill() // which does nothing after End
	}
	return err
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
