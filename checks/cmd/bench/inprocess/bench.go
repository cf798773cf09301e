// Package inprocess measures decisions in this process: our store in memory and net/http middleware, the
// floors of package floor, and the peers of package peers.
package inprocess

import (
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
)

// bench is one run.
type bench struct {
	size
	match   *regexp.Regexp
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

// Options say what to measure.
type Options struct {
	// Memory and HTTP choose parts: decisions in memory, and the net/http middleware.
	Memory, HTTP bool
	// Quick makes the run short.
	Quick bool
	// Only matches the part/subject pairs to measure.
	Only *regexp.Regexp
	// Progress receives how long each part took.
	Progress io.Writer
}

// memoryLimit keeps a run whose collector is off from filling the machine.
const memoryLimit = 10 << 30

// A part measures one thing. Parts run one after the other, and leave only their results.
type part struct {
	name    string
	http    bool
	measure func(*bench) error
}

var parts = []part{
	{"clock", false, measureClock},
	{"keys", false, measureKeys},
	{"returning", false, measureReturning},
	{"first", false, measureFirst},
	{"algorithms", false, measureAlgorithms},
	{"hot", false, measureHot},
	{"allocs", false, measureAllocs},
	{"heap", false, measureHeap},
	{"gc", false, measureGC},
	{"flood", false, measureFlood},
	{"http", true, measureHTTP},
}

// Measure runs the parts.
func Measure(o Options) (*figures.Report, error) {
	debug.SetMemoryLimit(memoryLimit)
	b := &bench{size: full, match: o.Only, results: figures.Results{}}
	if o.Quick {
		b.size = short
	}
	timer := figures.StartTimer(o.Progress)
	for _, p := range parts {
		if p.http && !o.HTTP || !p.http && !o.Memory {
			continue
		}
		if err := p.measure(b); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		timer.Part(p.name)
	}
	timer.All()
	return b.report(), nil
}

// wants reports whether to measure this part and subject.
func (b *bench) wants(part, subject string) bool {
	return b.match.MatchString(part + "/" + subject)
}

// note adds a sentence to the report.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}
