package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/checks/figures"
	"github.com/sluicehq/sluice/checks/redistest"
)

// bench is one run.
type bench struct {
	size
	match    *regexp.Regexp
	server   *redistest.Server
	version  string // of the server
	clients  clients
	results  figures.Results
	quiet    []float64         // what figures.Quiet found, once a round
	failed   map[string]string // metric-subject → the first error
	keyText  map[string]string // subject → a key as the server holds it
	poolSize int               // connections of go-redis
}

// size is how much a run measures.
type size struct {
	duration   time.Duration // of a cell, over all rounds
	rounds     int           // how often each subject takes its turn
	callers    []int         // how many ask at once, a cell each
	keys       int           // that decisions are spread over
	memoryKeys int           // that are alive while the memory is measured
	rest       time.Duration // before that: the server looks at each connection once a second
}

var full = size{
	duration: 2 * time.Second, rounds: 10, callers: []int{1, 16, 64, 256},
	keys: 10_000, memoryKeys: 100_000, rest: 1200 * time.Millisecond,
}

var short = size{
	duration: 50 * time.Millisecond, rounds: 1,
	keys: 1000, memoryKeys: 2000,
}

// barCallers is how many ask at once where the bars speak of one cell.
const barCallers = 64

// part is one thing to measure.
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

// clients are the connections that subjects share: all that use one library use
// the same ones, with the settings its documentation gives.
type clients struct {
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
	// What go-redis does by itself: it sends a command again when it does not know
	// what became of it. Our adapter refuses that, and no peer needs it here.
	b.clients.redis = redis.NewClient(&redis.Options{
		Addr: b.server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	b.poolSize = b.clients.redis.Options().PoolSize
	b.clients.rueidis, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{b.server.Addr()}, DisableCache: true,
	})
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

// wants reports whether the figure of this part and subject was asked for.
func (b *bench) wants(part, subject string) bool {
	return b.match.MatchString(part + "/" + subject)
}

// flush removes all keys.
func (b *bench) flush(ctx context.Context) error {
	_, err := b.server.Do(ctx, "FLUSHALL", "SYNC")
	return err
}

// cell is the name of a part's metrics with so many callers.
func cell(part string, callers int) string { return fmt.Sprintf("%s-%d", part, callers) }
