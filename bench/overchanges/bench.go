// Package overchanges measures overrides by call: how many changes a server takes in a second, and how long a server
// with many overrides takes to start. The server is a process; the callers are in this process, on the same machine.
package overchanges

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/load"
	"github.com/sluicehq/sluice/bench/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// The metrics: changes in a second, by calls of one change and of a batch; µs of the server's processes for a change; the
// changes in a second while all overrides are made; and the seconds until a server has all of them after its start.
const (
	metricSingle     = "single"
	metricSingleCost = "single-cost"
	metricBatch      = "batch"
	metricFill       = "fill"
	metricStart      = "start"
)

const (
	callers  = 64   // of single changes
	batchers = 2    // of batches
	batch    = 1000 // changes in a call
)

// size is how much a run measures.
type size struct {
	turn      time.Duration
	rounds    int
	overrides int
}

var (
	full  = size{turn: 2 * time.Second, rounds: 5, overrides: 1_000_000}
	short = size{turn: 200 * time.Millisecond, rounds: 1, overrides: 20_000}
)

// bench is one run.
type bench struct {
	size
	figures.Rounds
	program, work string
	redis         *redistest.Server
}

// New returns the part.
func New() figures.Part { return &bench{size: full} }

func (*bench) Name() string { return "changes" }

func (*bench) Flags(*flag.FlagSet) {}

// The keepers of overrides.
const (
	inMemory  = "this process"
	inJournal = "a journal"
	inRedis   = "Redis"
)

var keepers = []string{inMemory, inJournal, inRedis}

// store is the section of the configuration for a keeper.
func (b *bench) store(keeper string) string {
	switch keeper {
	case inJournal:
		return fmt.Sprintf("store: {memory: {file: %q}}", filepath.Join(b.work, "states"))
	case inRedis:
		return fmt.Sprintf("store: {redis: {addresses: [%q]}}", b.redis.Addr())
	}
	return ""
}

// Run measures all keepers, one after the other.
func (b *bench) Run(_ context.Context, o figures.Options) (err error) {
	if o.Quick {
		b.size = short
	}
	b.N, b.Turn = b.rounds, b.turn
	timer := figures.StartTimer(o.Progress)
	if b.work, err = os.MkdirTemp("", "overchanges"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	b.program = filepath.Join(b.work, "sluice")
	if err := process.Build(b.program, "github.com/sluicehq/sluice/server/cmd/sluice"); err != nil {
		return err
	}
	if b.redis, err = redistest.New(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.redis.Close()) }()
	for _, keeper := range keepers {
		if !o.Wants("changes", keeper) {
			continue
		}
		if err := b.measure(keeper); err != nil {
			return fmt.Errorf("%s: %w", keeper, err)
		}
		timer.Step(keeper)
	}
	timer.All()
	return nil
}

// serve starts a server with a keeper.
func (b *bench) serve(keeper string) (*process.Server, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.work, "sluice.yaml")
	text := fmt.Sprintf(`version: 1
listen: {proxy: "off", api: "off", admin: '%s'}
rules: [{name: tenants, match: {path: /**}, key: "header:X-Tenant", limit: {algorithm: token_bucket, rate: 100/m}}]
%s
`, address, b.store(keeper))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return process.Start(address, b.program, "serve", file)
}

// measure measures a keeper.
func (b *bench) measure(keeper string) error {
	s, err := b.serve(keeper)
	if err != nil {
		return err
	}
	defer func() { s.Stop() }()
	err = b.Race(1, func(int) error {
		if err := b.change(s, keeper, metricSingle, callers, 1); err != nil {
			return err
		}
		return b.change(s, keeper, metricBatch, batchers, batch)
	})
	if err != nil {
		return err
	}
	began := time.Now()
	c, err := load.Dial(s.Address)
	if err != nil {
		return err
	}
	for from := 0; from < b.overrides; from += batch {
		if err := c.Do(put(from, batch)); err != nil {
			return err
		}
	}
	if err := c.Close(); err != nil {
		return err
	}
	b.Add(metricFill, keeper, float64(b.overrides)/time.Since(began).Seconds())
	if keeper == inMemory {
		return nil
	}
	for range b.rounds {
		s.Stop()
		began := time.Now()
		if s, err = b.serve(keeper); err != nil {
			return err
		}
		if err := process.Until(func() error { return hasAll(s.Address, b.overrides) }); err != nil {
			return err
		}
		b.Add(metricStart, keeper, time.Since(began).Seconds())
	}
	return nil
}

// change makes changes for a turn, so many in a call.
func (b *bench) change(s *process.Server, keeper, metric string, callers, each int) error {
	client := load.NewHTTP(s.Address, put(0, each), callers)
	defer client.Close()
	got, used, err := load.Measure(client, callers, 0, b.turn, s)
	if err != nil {
		return err
	}
	b.Add(metric, keeper, float64(got.Calls)*float64(each)/got.Took.Seconds())
	if metric == metricSingle {
		b.Add(metricSingleCost, keeper, float64(used[0])/float64(time.Microsecond)/float64(max(1, got.Calls)))
	}
	return nil
}

// put returns a call that sets the overrides of keys from a number on. The numbers are of five kinds.
func put(from, n int) []byte {
	var body bytes.Buffer
	one := func(i int) {
		fmt.Fprintf(&body, `{"rule":"tenants","key":[%q],"limit":{"rate":"%d/m"}}`, figures.Key('o', i), 200+i%5)
	}
	if n == 1 {
		one(from)
	} else {
		body.WriteString(`{"overrides":[`)
		for i := range n {
			if i > 0 {
				body.WriteByte(',')
			}
			one(from + i)
		}
		body.WriteString(`]}`)
	}
	const head = "PUT /v1/overrides HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	return fmt.Appendf(nil, head, body.Len(), body.Bytes())
}

// hasAll returns an error unless a server has so many overrides in force.
func hasAll(address string, n int) error {
	res, err := http.Get("http://" + address + "/metrics") //nolint:noctx // the server ends with the run
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(text, []byte("\nsluice_overrides "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if got, err := strconv.ParseFloat(string(line), 64); err != nil || int(got) != n {
		return fmt.Errorf("the server has %s overrides, want %d", line, n)
	}
	return nil
}
