// Package overdoors measures the doors through which gateways and programs get decisions of sluice serve, beside the
// least that their protocols cost, and beside peers. Each server is a process; the callers are in this process, on the same
// machine.
package overdoors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/load"
	"github.com/sluicehq/sluice/bench/process"
)

// The metrics: µs that the processes of a row spend on a call, that redis-server spends, and both; calls and decisions in
// a second; µs until the answer to a call at a steady rate.
const (
	metricCPU       = "cpu"
	metricStore     = "store"
	metricAll       = "all"
	metricCalls     = "calls"
	metricDecisions = "decisions"
	metricP50       = "p50"
	metricP99       = "p99"
)

// callers is the number of callers, each of which makes a call when it has its last answer.
const callers = 64

// For the latencies, a few callers make so many calls a second together.
const (
	steadyCallers = 16
	steadyRate    = 2000
)

// How much a run measures. A turn of a row has calls without a pause, and then as long calls at a steady rate.
var (
	full  = figures.Rounds{N: 7, Turn: 1500 * time.Millisecond}
	short = figures.Rounds{N: 1, Turn: 100 * time.Millisecond}
)

// A row is one kind of call to one server. Doors have their rows in files of their own: see grpc.go, auth.go, spoe.go and
// resp.go.
type row struct {
	door, name string
	server     string   // the name in servers
	behind     []string // the names of servers behind it whose time counts too
	// without is the row of the same gateway without a limit. It is empty if callers call Sluice or a peer themselves.
	without string
	units   int  // questions in a call; latencies are measured of calls with one
	floor   bool // no limit is decided
	store   bool // redis-server decides for the server
	// connect makes a client of a server.
	connect func(address string) (load.Client, error)
}

// bench is one run.
type bench struct {
	figures.Rounds
	// The programs of checks/ratelimit and checks/traefik, empty to leave them out.
	ratelimitProgram, traefikProgram string

	work    string // a folder
	servers map[string]*process.Server
}

// New returns the part.
func New() figures.Part { return newBench() }

func newBench() *bench { return &bench{Rounds: full, servers: map[string]*process.Server{}} }

func (*bench) Name() string { return "doors" }

// Flags implements figures.Part.
func (b *bench) Flags(f *flag.FlagSet) {
	f.StringVar(&b.ratelimitProgram, "ratelimit", "", "also measure this `program` of checks/ratelimit")
	f.StringVar(&b.traefikProgram, "traefik", "", "also measure this `program` of checks/traefik")
}

// rows are the rows of all doors.
func (b *bench) rows() []row {
	return slices.Concat(authRows(b.traefikProgram != ""), spoeRows(), grpcRows(b.ratelimitProgram != ""), respRows())
}

// Run measures all rows in interleaved rounds.
func (b *bench) Run(_ context.Context, o figures.Options) (err error) {
	if o.Quick {
		b.Rounds = short
	}
	timer := figures.StartTimer(o.Progress)
	if b.work, err = os.MkdirTemp("", "overdoors"); err != nil {
		return err
	}
	defer func() {
		b.stop()
		err = errors.Join(err, os.RemoveAll(b.work))
	}()
	if err := b.start(); err != nil {
		return err
	}
	timer.Step("start")
	all := slices.DeleteFunc(b.rows(), func(r row) bool { return !o.Wants(r.door, r.name) })
	if err := b.Race(len(all), func(i int) error { return b.measure(&all[i]) }); err != nil {
		return err
	}
	timer.Step("doors")
	timer.All()
	return nil
}

// measure measures one turn of a row.
func (b *bench) measure(r *row) error {
	c, err := r.connect(b.servers[r.server].Address)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	defer c.Close()
	if err := b.measureClient(r, c); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

func (b *bench) measureClient(r *row, c load.Client) error {
	servers := []*process.Server{b.servers[storeServer], b.servers[r.server]}
	for _, name := range r.behind {
		servers = append(servers, b.servers[name])
	}
	got, used, err := load.Measure(c, callers, 0, b.Turn, servers...)
	if err != nil {
		return err
	}
	calls, own := float64(max(1, got.Calls)), 0.0
	for _, cpu := range used[1:] {
		own += micros(cpu) / calls
	}
	all := own
	if r.store {
		store := micros(used[0]) / calls
		b.Add(metricStore, r.name, store)
		all += store
	}
	b.Add(metricCPU, r.name, own)
	b.Add(metricAll, r.name, all)
	b.Add(metricCalls, r.name, calls/got.Took.Seconds())
	if !r.floor {
		b.Add(metricDecisions, r.name, calls*float64(r.units)/got.Took.Seconds())
	}
	if r.units > 1 {
		return nil
	}
	steady, err := load.Run(steadyCallers, steadyRate, b.Turn, c.Caller)
	if err != nil {
		return err
	}
	b.Add(metricP50, r.name, micros(steady.Latencies.Quantile(0.5)))
	b.Add(metricP99, r.name, micros(steady.Latencies.Quantile(0.99)))
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
