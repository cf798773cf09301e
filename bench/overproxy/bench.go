// Package overproxy measures sluice serve as a proxy with one rule, beside nginx with limit_req, HAProxy with a stick
// table, httputil.ReverseProxy, and the least that a proxy costs over net/http. Each proxy is a process. The clients and
// the upstream are in this process, on the same machine.
package overproxy

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

// The metrics: µs that the processes of a proxy spend on a request, of two kinds; requests that it passes in a second;
// ms that the slowest hundredth takes at a steady rate; and bytes of memory for an idle connection of a client.
const (
	metricGet    = "get"
	metricRate   = "rate"
	metricUpload = "upload"
	metricTail   = "tail"
	metricIdle   = "idle"
)

// The requests: most requests of a service, and a request that sluice does not carry on the direct path.
var (
	get    = []byte("GET /api/items?page=2 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	upload = []byte("POST /api/items HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
)

// connections is the number of clients, each with a connection that it keeps.
const connections = 64

// steady is how many requests a second come in the metric of the tail, whatever the answers.
const steady = 5000

// size is how much a run measures.
type size struct {
	figures.Rounds
	idle int // connections
}

// Most processes may have 20,000 files, of which a proxy needs one for each idle connection.
var (
	full  = size{figures.Rounds{N: 7, Turn: 2 * time.Second}, 10_000}
	short = size{figures.Rounds{N: 1, Turn: 200 * time.Millisecond}, 200}
)

// bench is one run.
type bench struct {
	size
	figures.Options
	missing []string // programs that are not installed
}

// New returns the part.
func New() figures.Part { return &bench{size: full} }

func (*bench) Name() string { return "proxy" }

func (*bench) Flags(*flag.FlagSet) {}

// Run measures all subjects in interleaved rounds.
func (b *bench) Run(_ context.Context, o figures.Options) (err error) {
	b.Options = o
	if o.Quick {
		b.size = short
	}
	timer := figures.StartTimer(o.Progress)
	work, err := os.MkdirTemp("", "overproxy")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	up, err := startUpstream()
	if err != nil {
		return err
	}
	defer up.stop()
	servers, err := b.startAll(work, up.address)
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	if err != nil {
		return err
	}
	timer.Step("start")
	for _, metric := range []string{metricGet, metricUpload, metricTail} {
		if err := b.race(metric, servers); err != nil {
			return err
		}
		timer.Step(metric)
	}
	for _, s := range subjects() {
		// HAProxy wants two files for each connection, more than most processes may have.
		if at := servers[s.name]; at != nil && s.name != haproxyName && b.Wants(metricIdle, s.name) {
			if err := b.measureIdle(s.name, at); err != nil {
				return fmt.Errorf("%s, idle: %w", s.name, err)
			}
		}
	}
	timer.Step(metricIdle)
	timer.All()
	return nil
}

// race measures a metric of all subjects in interleaved rounds.
func (b *bench) race(metric string, servers map[string]*process.Server) error {
	all := slices.DeleteFunc(subjects(), func(s subject) bool { return servers[s.name] == nil || !b.Wants(metric, s.name) })
	return b.Race(len(all), func(i int) error { return b.measure(metric, all[i].name, servers[all[i].name]) })
}

// measure measures one turn of a subject.
func (b *bench) measure(metric, subject string, at *process.Server) error {
	request, rate := get, 0
	switch metric {
	case metricUpload:
		request = upload
	case metricTail:
		rate = steady
	}
	client := load.NewHTTP(at.Address, request, connections)
	defer client.Close()
	r, used, err := load.Measure(client, connections, rate, b.Turn, at)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", subject, metric, err)
	}
	each := float64(used[0]) / float64(time.Microsecond) / float64(max(1, r.Calls))
	switch metric {
	case metricTail:
		b.Add(metricTail, subject, r.Latencies.Quantile(0.99).Seconds()*1e3)
	case metricGet:
		b.Add(metricGet, subject, each)
		b.Add(metricRate, subject, float64(r.Calls)/r.Took.Seconds())
	default:
		b.Add(metric, subject, each)
	}
	return nil
}

// measureIdle opens connections that make one request each, and returns what an idle one costs the proxy.
func (b *bench) measureIdle(subject string, at *process.Server) error {
	before, err := at.Memory()
	if err != nil {
		return err
	}
	client := load.NewHTTP(at.Address, get, b.idle)
	defer client.Close()
	for i := range b.idle {
		if err := client.Caller(i)(); err != nil {
			return err
		}
	}
	after, err := at.Memory()
	if err != nil {
		return err
	}
	b.Add(metricIdle, subject, float64(after-before)/float64(b.idle))
	return nil
}
