package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is what `go test -json` writes a line of; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // names what is built, instead of Package
	Test       string
	Output     string
	Elapsed    float64
}

// A summary counts the tests of several runs. The zero value is not usable;
// newSummary makes one. It is safe for concurrent use.
type summary struct {
	mu  sync.Mutex
	out io.Writer

	passed, failed int
	times          []timing
	used           []timing // processor time, by run
}

// A tally is the result of one package.
type tally struct{ passed, failed int }

// A timing is a top-level test or a run, and how long it took, in seconds.
type timing struct {
	name    string
	seconds float64
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out}
}

// A stream is an io.Writer that reads the events of one run into a summary. It is for
// one goroutine.
type stream struct {
	s        *summary
	name     string
	partial  []byte                      // a line that has not ended yet
	failures int                         // of tests and packages
	output   map[string]*strings.Builder // by package and top-level test
	packages map[string]*tally
}

// stream returns the reader of one run's events. The caller must call end.
func (s *summary) stream(name string) *stream {
	return &stream{s: s, name: name, output: map[string]*strings.Builder{}, packages: map[string]*tally{}}
}

// Write takes a piece of the stream of events.
func (r *stream) Write(p []byte) (int, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.partial = append(r.partial, p...)
	for {
		line, rest, found := bytes.Cut(r.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		r.line(line)
		r.partial = rest
	}
}

// end closes a run whose `go test` returned err and used so much processor time. An error without an event, such
// as a go.mod that cannot be read, is one failure.
func (r *stream) end(err error, used time.Duration) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.used = append(r.s.used, timing{r.name, used.Seconds()})
	if err != nil && r.failures == 0 {
		r.s.failed++
		fmt.Fprintf(r.s.out, "FAIL  %s: go test: %v\n", r.name, err)
	}
}

// line reads one event.
func (r *stream) line(line []byte) {
	s := r.s
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		fmt.Fprintf(s.out, "%s\n", line) // not an event: the go command itself speaks
		return
	}
	top, _, isSub := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.out, e.Output)
	case e.Action == "output":
		r.buffer(key).WriteString(e.Output)
	case e.Test == "":
		r.packageEnds(e)
	case isSub: // counted, and shown, with its top-level test
	case e.Action == "pass":
		s.passed++
		r.tally(e.Package).passed++
		s.times = append(s.times, timing{e.Package + " " + e.Test, e.Elapsed})
		delete(r.output, key)
	case e.Action == "skip":
		delete(r.output, key)
	case e.Action == "fail":
		s.failed++
		r.tally(e.Package).failed++
		s.times = append(s.times, timing{e.Package + " " + e.Test, e.Elapsed})
		fmt.Fprint(s.out, r.buffer(key))
		delete(r.output, key)
		r.failures++
	}
}

// packageEnds prints the package's line. A package that failed without a failed
// test did not build, or its program died; that is one failure.
func (r *stream) packageEnds(e event) {
	s := r.s
	key := e.Package + " "
	t := r.tally(e.Package)
	switch e.Action {
	case "pass":
		if t.passed > 0 {
			cached := ""
			if strings.Contains(r.buffer(key).String(), "(cached)") {
				cached = ", cached"
			}
			fmt.Fprintf(s.out, "ok    %s: %d passed (%.1f s%s)\n", e.Package, t.passed, e.Elapsed, cached)
		}
	case "fail":
		r.failures++
		if t.failed == 0 {
			s.failed++
		}
		// A test that ran when the program died never ended: show it. Sorted, the
		// package's own output comes first.
		for _, k := range slices.Sorted(maps.Keys(r.output)) {
			if strings.HasPrefix(k, key) {
				fmt.Fprint(s.out, r.output[k])
			}
		}
		fmt.Fprintf(s.out, "FAIL  %s: %d passed, %d failed (%.1f s)\n", e.Package, t.passed, max(t.failed, 1), e.Elapsed)
	case "skip": // no test files
	default:
		return
	}
	for k := range r.output {
		if strings.HasPrefix(k, key) {
			delete(r.output, k)
		}
	}
	delete(r.packages, e.Package)
}

// close prints the slowest tests and the sum, and reports whether all is well.
func (s *summary) close(slowest int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.times, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	if n := min(slowest, len(s.times)); n > 0 {
		fmt.Fprintf(s.out, "The slowest tests:\n")
		for _, t := range s.times[:n] {
			fmt.Fprintf(s.out, "%7.1f s  %s\n", t.seconds, t.name)
		}
		fmt.Fprintln(s.out)
	}
	fmt.Fprintf(s.out, "Processor time:\n")
	for _, t := range s.used {
		fmt.Fprintf(s.out, "%7.0f s  %s\n", t.seconds, t.name)
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed\n", s.passed, s.failed)
	return s.failed == 0
}

func (r *stream) buffer(key string) *strings.Builder {
	if r.output[key] == nil {
		r.output[key] = new(strings.Builder)
	}
	return r.output[key]
}

func (r *stream) tally(pkg string) *tally {
	if r.packages[pkg] == nil {
		r.packages[pkg] = new(tally)
	}
	return r.packages[pkg]
}
