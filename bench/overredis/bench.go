// Package overredis measures decisions in Redis, over one server that it starts: our store through both of
// its clients, the floors of package floor, and the peers of package peers. The server is the program
// that SLUICE_REDIS_SERVER names, by path, and redis-server without it.
package overredis

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/checks/redistest"
)

// bench is one run.
type bench struct {
	size
	figures.Options
	length   span // what -duration says
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

// A step measures one thing.
type step struct {
	name    string
	measure func(context.Context, *bench) error
}

var steps = []step{
	{"keys", measureKeys},
	{"hot", measureHot},
	{"batch", measureBatch},
	{"memory", measureMemory},
}

// New returns the part.
func New() figures.Part {
	return &bench{size: full, results: figures.Results{}, failed: map[string]string{}, keyText: map[string]string{}}
}

func (*bench) Name() string { return "redis" }

// Flags implements figures.Part.
func (b *bench) Flags(f *flag.FlagSet) {
	f.Var(&b.length, "duration", "how `long` each subject is measured in each cell of a table, over all rounds; without it 2s, and 50ms with -quick")
	f.Var((*numbers)(&b.callers), "callers", "the numbers of callers at once, which are the `columns` of the tables")
}

// Run runs every step over a server that it starts.
func (b *bench) Run(ctx context.Context, o figures.Options) (err error) {
	b.Options = o
	if o.Quick {
		callers := b.callers
		b.size, b.callers = short, callers
	}
	if b.length > 0 {
		b.duration = time.Duration(b.length)
	}
	timer := figures.StartTimer(o.Progress)
	if b.server, err = redistest.New(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.connect(ctx); err != nil {
		return err
	}
	for _, s := range steps {
		if err := s.measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		timer.Step(s.name)
	}
	timer.All()
	return nil
}

// clients are the connections that subjects share. All subjects of a library use the same client, with
// the settings of its documentation.
type clients struct {
	options rueidis.ClientOption // of our store, which connects by itself
	rueidis rueidis.Client
	redis   *redis.Client
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

// flush removes all keys.
func (b *bench) flush(ctx context.Context) error {
	_, err := b.server.Do(ctx, "FLUSHALL", "SYNC")
	return err
}

// cell returns the name of a step's metrics with some number of callers.
func cell(step string, callers int) string { return fmt.Sprintf("%s-%d", step, callers) }
