// Package inprocess measures decisions in this process: our store in memory and net/http middleware, the
// floors of package floor, and the peers of package peers.
package inprocess

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

// bench is one run of a part.
type bench struct {
	size
	figures.Options
	name    string
	steps   []step
	results figures.Results
	notes   []string
	quiet   []float64 // the results of figures.Quiet, one per round
}

// size is how much a run measures.
type size struct {
	rounds        int           // how often each subject takes its turn
	liveKeys      int           // for zipf and uniform
	sequence      int           // decisions per goroutine and turn, for zipf and uniform
	firstKeys     int           // keys per turn, for first visits
	algorithmKeys int           // keys of each algorithm
	turn          time.Duration // length of a turn where the key is one
	heapKeys      int           // heap is sampled from so many keys to twice as many
	heapPoints    int           // samples of the heap
	gcKeys        int           // keys alive while collections are timed
	gcCycles      int           // collections timed
	floodKeys     int           // keys thrown against the bound
	floodBound    int           // the bound, in bytes
}

var full = size{
	rounds: 7, liveKeys: 1_000_000, sequence: 500_000, firstKeys: 1_000_000, algorithmKeys: 200_000, turn: 100 * time.Millisecond,
	heapKeys: 1_000_000, heapPoints: 21,
	gcKeys: 10_000_000, gcCycles: 31,
	floodKeys: 10_000_000, floodBound: 64 << 20,
}

var short = size{
	rounds: 3, liveKeys: 200_000, sequence: 100_000, firstKeys: 100_000, algorithmKeys: 20_000, turn: 10 * time.Millisecond,
	heapKeys: 100_000, heapPoints: 5,
	gcKeys: 1_000_000, gcCycles: 9,
	floodKeys: 1_000_000, floodBound: 6_400_000,
}

// goroutines is how many work at once, wherever more than one does.
const goroutines = 2

// memoryLimit keeps a run whose collector is off from filling the machine.
const memoryLimit = 10 << 30

// A step measures one thing. Steps run one after the other, and leave only their results.
type step struct {
	name    string
	measure func(*bench) error
}

// Memory returns the part of decisions in memory.
func Memory() figures.Part {
	return newBench("memory", []step{
		{"clock", measureClock},
		{"keys", measureKeys},
		{"returning", measureReturning},
		{"first", measureFirst},
		{"algorithms", measureAlgorithms},
		{"hot", measureHot},
		{"allocs", measureAllocs},
		{"heap", measureHeap},
		{"gc", measureGC},
		{"flood", measureFlood},
		{"overrides", measureOverrides},
	})
}

// HTTP returns the part of the net/http middleware.
func HTTP() figures.Part { return newBench("http", []step{{"http", measureHTTP}}) }

func newBench(name string, steps []step) *bench {
	return &bench{size: full, name: name, steps: steps, results: figures.Results{}}
}

func (b *bench) Name() string { return b.name }

func (*bench) Flags(*flag.FlagSet) {}

// Run runs the steps.
func (b *bench) Run(_ context.Context, o figures.Options) error {
	debug.SetMemoryLimit(memoryLimit)
	b.Options = o
	if o.Quick {
		b.size = short
	}
	timer := figures.StartTimer(o.Progress)
	for _, s := range b.steps {
		if err := s.measure(b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		timer.Step(s.name)
	}
	timer.All()
	return nil
}

// note adds a sentence to the report.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}
