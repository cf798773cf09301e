// Package overapi measures the decision API of sluice serve, beside a bare net/http server that decodes and encodes the
// same JSON. Each server is a process; the callers are in this process, on the same machine.
package overapi

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

// The metrics: µs that the process of a server spends, and calls that it answers in a second.
const (
	metricCall     = "call"
	metricQuestion = "question"
	metricRate     = "rate"
)

// connections is the number of callers, each with a connection that it keeps.
const connections = 64

// How much a run measures.
var (
	full  = figures.Rounds{N: 7, Turn: 2 * time.Second}
	short = figures.Rounds{N: 1, Turn: 200 * time.Millisecond}
)

// bench is one run.
type bench struct{ figures.Rounds }

// New returns the part.
func New() figures.Part { return &bench{full} }

func (*bench) Name() string { return "api" }

func (*bench) Flags(*flag.FlagSet) {}

// Run measures all subjects in interleaved rounds.
func (b *bench) Run(_ context.Context, o figures.Options) (err error) {
	if o.Quick {
		b.Rounds = short
	}
	timer := figures.StartTimer(o.Progress)
	work, err := os.MkdirTemp("", "overapi")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	servers, err := startAll(work)
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	if err != nil {
		return err
	}
	timer.Step("start")
	all := slices.DeleteFunc(subjects(), func(s subject) bool { return !o.Wants("api", s.name) })
	if err := b.Race(len(all), func(i int) error { return b.measure(&all[i], servers[all[i].server]) }); err != nil {
		return err
	}
	timer.Step("api")
	timer.All()
	return nil
}

// measure measures one turn of a subject.
func (b *bench) measure(s *subject, at *process.Server) error {
	client := load.NewHTTP(at.Address, s.call, connections)
	defer client.Close()
	got, used, err := load.Measure(client, connections, 0, b.Turn, at)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	each := float64(used[0]) / float64(time.Microsecond) / float64(max(1, got.Calls))
	b.Add(metricCall, s.name, each)
	b.Add(metricRate, s.name, float64(got.Calls)/got.Took.Seconds())
	if s.questions > 0 {
		b.Add(metricQuestion, s.name, each/float64(s.questions))
	}
	return nil
}
