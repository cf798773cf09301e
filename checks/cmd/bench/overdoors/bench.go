// Package overdoors measures the doors through which gateways and programs get decisions of sluice serve, beside the
// least that their protocols cost, and beside peers. Each server is a process; the callers are in this process, on the same
// machine.
package overdoors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/cmd/bench/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// The metrics: µs that the processes of a server spend on a call; calls and decisions in a second.
const (
	metricCPU       = "cpu"
	metricCalls     = "calls"
	metricDecisions = "decisions"
)

// callers is the number of callers, each of which makes a call when it has its last answer.
const callers = 64

// size is how much a run measures.
type size struct {
	turn   time.Duration
	rounds int
}

var (
	full  = size{2 * time.Second, 7}
	short = size{100 * time.Millisecond, 1}
)

// Options say what to measure.
type Options struct {
	// Quick makes the run short.
	Quick bool
	// Only matches the door/row pairs to measure.
	Only *regexp.Regexp
	// Ratelimit is the program of checks/ratelimit, empty to leave it out.
	Ratelimit string
	// Progress receives how long each part took.
	Progress io.Writer
}

// A row is one kind of call to one server. Doors have their rows in files of their own: see rls.go, auth.go and resp.go.
type row struct {
	door, name string
	server     string   // the name in servers
	behind     []string // the names of servers behind it whose time counts too
	decisions  int      // of each call
	// connect makes a load on a server.
	connect func(address string) (load, error)
}

// A load makes calls.
type load interface {
	// caller returns the function with which one of the callers makes a call.
	caller(i int) func() error
	close()
}

// bench is one run.
type bench struct {
	size
	o       Options
	work    string // a folder
	redis   *redistest.Server
	servers map[string]*process.Server
	values  map[string]map[string][]float64
	quiet   []float64
}

// rows are the rows of all doors.
func (b *bench) rows() []row {
	return slices.Concat(rlsRows(b.o.Ratelimit != ""), authRows(), respRows())
}

// Measure measures all rows in interleaved rounds.
func Measure(o Options) (_ *figures.Report, err error) {
	b := &bench{size: full, o: o, servers: map[string]*process.Server{}, values: map[string]map[string][]float64{}}
	if o.Quick {
		b.size = short
	}
	timer := figures.StartTimer(o.Progress)
	if b.work, err = os.MkdirTemp("", "overdoors"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop(), os.RemoveAll(b.work)) }()
	if err := b.start(); err != nil {
		return nil, err
	}
	timer.Part("start")
	all := b.rows()
	for round := range b.rounds {
		b.quiet = append(b.quiet, figures.Quiet())
		for i := range all {
			r := &all[(i+round)%len(all)]
			if o.Only != nil && !o.Only.MatchString(r.door+"/"+r.name) {
				continue
			}
			if err := b.measure(r); err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	timer.Part("doors")
	timer.All()
	return b.report(), nil
}

// measure measures one turn of a row.
func (b *bench) measure(r *row) error {
	at := b.servers[r.server]
	l, err := r.connect(at.Address)
	if err != nil {
		return err
	}
	defer l.close()
	if _, _, err := turn(l, b.turn/8); err != nil { // to warm up
		return err
	}
	before, err := b.used(r)
	if err != nil {
		return err
	}
	calls, took, err := turn(l, b.turn)
	if err != nil {
		return err
	}
	after, err := b.used(r)
	if err != nil {
		return err
	}
	b.add(metricCPU, r.name, float64(after-before)/float64(time.Microsecond)/float64(max(1, calls)))
	b.add(metricCalls, r.name, float64(calls)/took.Seconds())
	b.add(metricDecisions, r.name, float64(calls)*float64(r.decisions)/took.Seconds())
	return nil
}

// used returns the time that the servers of a row have used.
func (b *bench) used(r *row) (sum time.Duration, err error) {
	for _, name := range append([]string{r.server}, r.behind...) {
		cpu, err := b.servers[name].CPU()
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

func (b *bench) add(metric, name string, v float64) {
	if b.values[metric] == nil {
		b.values[metric] = map[string][]float64{}
	}
	b.values[metric][name] = append(b.values[metric][name], v)
}

// turn lets all callers make calls for a time.
func turn(l load, length time.Duration) (calls int64, took time.Duration, err error) {
	var all sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, callers)
	began := time.Now()
	for i := range callers {
		call := l.caller(i)
		all.Go(func() {
			n := int64(0)
			for ; errs[i] == nil && time.Since(began) < length; n++ {
				errs[i] = call()
			}
			done.Add(n)
		})
	}
	all.Wait()
	return done.Load(), time.Since(began), errors.Join(errs...)
}
