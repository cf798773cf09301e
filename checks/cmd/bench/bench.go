package main

import (
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/sluicehq/sluice/checks/figures"
)

// bench is one run.
type bench struct {
	size
	match    *regexp.Regexp
	progress io.Writer
	results  figures.Results
	notes    []string
	quiet    []float64 // what figures.Quiet found, once a round
}

// size is how much a run measures.
type size struct {
	rounds     int           // how often each subject takes its turn
	liveKeys   int           // for zipf and uniform
	sequence   int           // decisions per goroutine and turn, for zipf and uniform
	turn       time.Duration // length of a turn where the key is one
	heapKeys   int           // heap is sampled from so many keys to twice as many
	heapPoints int           // samples of the heap
	gcKeys     int           // keys alive while collections are timed
	gcCycles   int           // collections timed
	floodKeys  int           // keys thrown against the bound
	floodBound int           // the bound, in bytes
}

var full = size{
	rounds: 7, liveKeys: 1_000_000, sequence: 1_000_000, turn: 100 * time.Millisecond,
	heapKeys: 1_000_000, heapPoints: 21,
	gcKeys: 10_000_000, gcCycles: 31,
	floodKeys: 10_000_000, floodBound: 64 << 20,
}

var short = size{
	rounds: 3, liveKeys: 200_000, sequence: 100_000, turn: 10 * time.Millisecond,
	heapKeys: 100_000, heapPoints: 5,
	gcKeys: 1_000_000, gcCycles: 9,
	floodKeys: 1_000_000, floodBound: 6_400_000,
}

// goroutines is how many work at once, wherever more than one does.
const goroutines = 2

// part is one thing to measure. Parts run one after the other and leave
// nothing behind but results.
type part struct {
	name    string
	measure func(*bench) error
}

var parts = []part{
	{"clock", measureClock},
	{"keys", measureKeys},
	{"hot", measureHot},
	{"allocs", measureAllocs},
	{"heap", measureHeap},
	{"gc", measureGC},
	{"flood", measureFlood},
	{"http", measureHTTP},
}

// wants reports whether the figure of this part and subject was asked for.
func (b *bench) wants(part, subject string) bool {
	return b.match.MatchString(part + "/" + subject)
}

// note adds a sentence to the report.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}
