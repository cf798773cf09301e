// Package overredis measures decisions in Redis, over one server that it starts: our store through both of
// its clients, the floors of package floor, and the peers of package peers. The server is the program
// that SLUICE_REDIS_SERVER names, by path, and redis-server without it.
package overredis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/redistest"
)

// bench is one run.
type bench struct {
	size
	match    *regexp.Regexp
	server   *redistest.Server
	version  string // the server's name and version
	clients  clients
	results  figures.Results
	quiet    []float64         // the results of figures.Quiet, one per round
	failed   map[string]string // metric-subject → the first error
	keyText  map[string]string // subject → a key as the server holds it
	poolSize int               // connections of go-redis
}

// size is how much a run measures.
type size struct {
	duration   time.Duration // per cell, over all rounds
	rounds     int           // how often each subject takes its turn
	callers    []int         // how many callers there are at once, one cell each
	keys       int           // how many keys the decisions are about
	memoryKeys int           // how many keys are live while the memory is measured
	rest       time.Duration // how long the memory must stay the same: the server updates each connection once a second
}

var full = size{
	duration: 2 * time.Second, rounds: 10, callers: []int{1, 16, 64, 256},
	keys: 10_000, memoryKeys: 100_000, rest: 1200 * time.Millisecond,
}

var short = size{
	duration: 50 * time.Millisecond, rounds: 1,
	keys: 1000, memoryKeys: 2000,
}

// barCallers is the number of callers of bars that judge one cell.
const barCallers = 64

// Options say what to measure.
type Options struct {
	// Quick makes the run short.
	Quick bool
	// Duration is how long each subject is measured in each cell of a table, over all rounds. Zero is 2 s,
	// and 50 ms for a short run.
	Duration time.Duration
	// Callers are how many callers there are at once, one cell each. None is 1, 16, 64 and 256.
	Callers []int
	// Only matches the part/subject pairs to measure.
	Only *regexp.Regexp
	// Progress receives how long each part took.
	Progress io.Writer
}

// A part measures one thing.
type part struct {
	name    string
	measure func(context.Context, *bench) error
}

var parts = []part{
	{"keys", measureKeys},
	{"hot", measureHot},
	{"batch", measureBatch},
	{"memory", measureMemory},
}

// Measure runs every part over a server that it starts.
func Measure(ctx context.Context, o Options) (*figures.Report, error) {
	s := full
	if o.Quick {
		s = short
	}
	if o.Duration > 0 {
		s.duration = o.Duration
	}
	if s.callers = o.Callers; len(s.callers) == 0 {
		s.callers = full.callers
	}
	timer := figures.StartTimer(o.Progress)
	b, err := newBench(ctx, s, o.Only)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := p.measure(ctx, b); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", p.name, err), b.close())
		}
		timer.Part(p.name)
	}
	timer.All()
	if err := b.close(); err != nil {
		return nil, err
	}
	return b.report(), nil
}

// clients are the connections that subjects share. All subjects of a library use the same client, with
// the settings of its documentation.
type clients struct {
	options rueidis.ClientOption // of our store, which connects by itself
	rueidis rueidis.Client
	redis   *redis.Client
}

func newBench(ctx context.Context, s size, match *regexp.Regexp) (*bench, error) {
	b := &bench{
		size: s, match: match,
		results: figures.Results{}, failed: map[string]string{}, keyText: map[string]string{},
	}
	var err error
	if b.server, err = redistest.New(); err != nil {
		return nil, err
	}
	if err = b.connect(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) connect(ctx context.Context) error {
	info, err := b.server.Info(ctx, "server")
	if err != nil {
		return err
	}
	b.version = "Redis " + info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		b.version = "Valkey " + v
	}
	// By default, go-redis sends a command again if it does not get the reply. Our adapter refuses
	// that, and no peer needs it here.
	b.clients.redis = redis.NewClient(&redis.Options{
		Addr: b.server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	b.poolSize = b.clients.redis.Options().PoolSize
	b.clients.options = rueidis.ClientOption{InitAddress: []string{b.server.Addr()}, DisableCache: true}
	b.clients.rueidis, err = rueidis.NewClient(b.clients.options)
	return err
}

// close ends the clients and the server.
func (b *bench) close() error {
	if b.clients.rueidis != nil {
		b.clients.rueidis.Close()
	}
	var err error
	if b.clients.redis != nil {
		err = b.clients.redis.Close()
	}
	return errors.Join(err, b.server.Close())
}

// wants reports whether to measure this part and subject.
func (b *bench) wants(part, subject string) bool {
	return b.match.MatchString(part + "/" + subject)
}

// flush removes all keys.
func (b *bench) flush(ctx context.Context) error {
	_, err := b.server.Do(ctx, "FLUSHALL", "SYNC")
	return err
}

// cell returns the name of a part's metrics with some number of callers.
func cell(part string, callers int) string { return fmt.Sprintf("%s-%d", part, callers) }
