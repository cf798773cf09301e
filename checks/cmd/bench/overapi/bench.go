// Package overapi measures the decision API of sluice serve, beside a bare net/http server that decodes and encodes the
// same JSON. Each server is a process; the callers are in this process, on the same machine.
package overapi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/cmd/bench/process"
)

// The metrics: µs that the process of a server spends, and calls that it answers in a second.
const (
	metricCall     = "call"
	metricQuestion = "question"
	metricRate     = "rate"
)

// connections is the number of callers, each with a connection that it keeps.
const connections = 64

// size is how much a run measures.
type size struct {
	turn   time.Duration
	rounds int
}

var (
	full  = size{2 * time.Second, 7}
	short = size{200 * time.Millisecond, 1}
)

// Options say what to measure.
type Options struct {
	// Quick makes the run short.
	Quick bool
	// Only matches the part/subject pairs to measure.
	Only *regexp.Regexp
	// Progress receives how long each part took.
	Progress io.Writer
}

// bench is one run.
type bench struct {
	size
	only   *regexp.Regexp
	values map[string]map[string][]float64
	quiet  []float64
}

// Measure measures all subjects in interleaved rounds.
func Measure(o Options) (_ *figures.Report, err error) {
	b := &bench{size: full, only: o.Only, values: map[string]map[string][]float64{}}
	if o.Quick {
		b.size = short
	}
	timer := figures.StartTimer(o.Progress)
	work, err := os.MkdirTemp("", "overapi")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	servers, err := startAll(work)
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	if err != nil {
		return nil, err
	}
	timer.Part("start")
	all := subjects()
	for round := range b.rounds {
		b.quiet = append(b.quiet, figures.Quiet())
		for i := range all {
			s := &all[(i+round)%len(all)]
			if b.only != nil && !b.only.MatchString("api/"+s.name) {
				continue
			}
			if err := b.measure(s, servers[s.server]); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	timer.Part("api")
	timer.All()
	return b.report(), nil
}

// measure measures one turn of a subject.
func (b *bench) measure(s *subject, at *process.Server) error {
	if _, _, err := turn(at.Address, s.call, b.turn/8); err != nil { // to warm up
		return err
	}
	before, err := at.CPU()
	if err != nil {
		return err
	}
	calls, took, err := turn(at.Address, s.call, b.turn)
	if err != nil {
		return err
	}
	after, err := at.CPU()
	if err != nil {
		return err
	}
	each := float64(after-before) / float64(time.Microsecond) / float64(max(1, calls))
	b.add(metricCall, s.name, each)
	b.add(metricRate, s.name, float64(calls)/took.Seconds())
	if s.questions > 0 {
		b.add(metricQuestion, s.name, each/float64(s.questions))
	}
	return nil
}

func (b *bench) add(metric, subject string, v float64) {
	if b.values[metric] == nil {
		b.values[metric] = map[string][]float64{}
	}
	b.values[metric][subject] = append(b.values[metric][subject], v)
}
