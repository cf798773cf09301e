// Package overproxy measures sluice serve as a proxy with one rule, beside nginx with limit_req, HAProxy with a stick
// table, httputil.ReverseProxy, and the least that a proxy costs over net/http. Each proxy is a process. The clients and
// the upstream are in this process, on the same machine.
package overproxy

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

// The metrics: µs that the processes of a proxy spend on a request, of two kinds; requests that it passes in a second;
// ms that the slowest hundredth takes at a steady rate; and bytes of memory for an idle connection of a client.
const (
	metricGet    = "get"
	metricRate   = "rate"
	metricUpload = "upload"
	metricTail   = "tail"
	metricIdle   = "idle"
)

// connections is the number of clients, each with a connection that it keeps.
const connections = 64

// steady is how many requests a second come in the metric of the tail, whatever the answers.
const steady = 5000

// size is how much a run measures.
type size struct {
	turn   time.Duration
	rounds int
	idle   int // connections
}

// Most processes may have 20,000 files, of which a proxy needs one for each idle connection.
var (
	full  = size{2 * time.Second, 7, 10_000}
	short = size{200 * time.Millisecond, 1, 200}
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
	only    *regexp.Regexp
	values  map[string]map[string][]float64
	quiet   []float64
	missing []string // programs that are not installed
}

// Measure measures all subjects in interleaved rounds.
func Measure(o Options) (_ *figures.Report, err error) {
	b := &bench{size: full, only: o.Only, values: map[string]map[string][]float64{}}
	if o.Quick {
		b.size = short
	}
	timer := figures.StartTimer(o.Progress)
	work, err := os.MkdirTemp("", "overproxy")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	up, err := startUpstream()
	if err != nil {
		return nil, err
	}
	defer up.stop()
	servers, err := b.startAll(work, up.address)
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	if err != nil {
		return nil, err
	}
	timer.Part("start")
	for _, metric := range []string{metricGet, metricUpload, metricTail} {
		if err := b.race(metric, servers); err != nil {
			return nil, err
		}
		timer.Part(metric)
	}
	for _, s := range subjects() {
		// HAProxy wants two files for each connection, more than most processes may have.
		if at := servers[s.name]; at != nil && s.name != haproxyName && b.matches(metricIdle, s.name) {
			if err := b.measureIdle(s.name, at); err != nil {
				return nil, fmt.Errorf("%s, idle: %w", s.name, err)
			}
		}
	}
	timer.Part(metricIdle)
	timer.All()
	return b.report(), nil
}

func (b *bench) matches(metric, subject string) bool {
	return b.only == nil || b.only.MatchString(metric+"/"+subject)
}

// race measures a metric of all subjects in interleaved rounds.
func (b *bench) race(metric string, servers map[string]*process.Server) error {
	all := subjects()
	for round := range b.rounds {
		b.quiet = append(b.quiet, figures.Quiet())
		for i := range all {
			s := &all[(i+round)%len(all)]
			at := servers[s.name]
			if at == nil || !b.matches(metric, s.name) {
				continue
			}
			if err := b.measure(metric, s.name, at); err != nil {
				return fmt.Errorf("%s, %s: %w", s.name, metric, err)
			}
		}
	}
	return nil
}

// measure measures one turn of a subject.
func (b *bench) measure(metric, subject string, at *process.Server) error {
	l := load{address: at.Address, request: get}
	if metric == metricUpload {
		l.request = upload
	}
	l.length = b.turn / 8
	if _, err := l.run(); err != nil { // to warm up
		return err
	}
	l.length = b.turn
	if metric == metricTail {
		l.rate = steady
	}
	before, err := at.CPU()
	if err != nil {
		return err
	}
	r, err := l.run()
	if err != nil {
		return err
	}
	after, err := at.CPU()
	if err != nil {
		return err
	}
	each := float64(after-before) / float64(time.Microsecond) / float64(max(1, r.requests))
	switch metric {
	case metricTail:
		b.add(metricTail, subject, r.latencies.Quantile(0.99).Seconds()*1e3)
	case metricGet:
		b.add(metricGet, subject, each)
		b.add(metricRate, subject, float64(r.requests)/r.took.Seconds())
	default:
		b.add(metric, subject, each)
	}
	return nil
}

// measureIdle opens connections that make one request each, and returns what an idle one costs the proxy.
func (b *bench) measureIdle(subject string, at *process.Server) error {
	before, err := at.Memory()
	if err != nil {
		return err
	}
	conns, err := hold(at.Address, b.idle)
	defer func() {
		for _, c := range conns {
			_ = c.Close() // it is not used again
		}
	}()
	if err != nil {
		return err
	}
	after, err := at.Memory()
	if err != nil {
		return err
	}
	b.add(metricIdle, subject, float64(after-before)/float64(b.idle))
	return nil
}

func (b *bench) add(metric, subject string, v float64) {
	if b.values[metric] == nil {
		b.values[metric] = map[string][]float64{}
	}
	b.values[metric][subject] = append(b.values[metric][subject], v)
}
