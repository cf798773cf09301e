package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is what `go test -json` writes a line of; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of what is built, in place of Package
	Test       string
	Output     string
	Elapsed    float64
}

// summary reads events, as an io.Writer, and counts. The zero value is not
// usable; newSummary makes one. It is not safe for concurrent use.
type summary struct {
	out     io.Writer
	partial []byte // a line that has not ended yet

	passed, failed int

	output   map[string]*strings.Builder // by package and top-level test
	packages map[string]*tally
	failures int // of tests and packages in the module at hand
}

// tally is what one package has come to.
type tally struct{ passed, failed int }

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string]*strings.Builder{}, packages: map[string]*tally{}}
}

// Write takes a piece of the stream of events.
func (s *summary) Write(p []byte) (int, error) {
	s.partial = append(s.partial, p...)
	for {
		line, rest, found := bytes.Cut(s.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		s.line(line)
		s.partial = rest
	}
}

func (s *summary) line(line []byte) {
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
		s.buffer(key).WriteString(e.Output)
	case e.Test == "":
		s.packageEnds(e)
	case isSub: // counted, and shown, with its top-level test
	case e.Action == "pass":
		s.passed++
		s.tally(e.Package).passed++
		delete(s.output, key)
	case e.Action == "skip":
		delete(s.output, key)
	case e.Action == "fail":
		s.failed++
		s.failures++
		s.tally(e.Package).failed++
		fmt.Fprint(s.out, s.buffer(key))
		delete(s.output, key)
	}
}

// packageEnds prints the package's line. A package that failed without a failed
// test did not build, or its program died; that is one failure.
func (s *summary) packageEnds(e event) {
	key := e.Package + " "
	t := s.tally(e.Package)
	switch e.Action {
	case "pass":
		if t.passed > 0 {
			cached := ""
			if strings.Contains(s.buffer(key).String(), "(cached)") {
				cached = ", cached"
			}
			fmt.Fprintf(s.out, "ok    %s: %d passed (%.1f s%s)\n", e.Package, t.passed, e.Elapsed, cached)
		}
	case "fail":
		s.failures++
		if t.failed == 0 {
			s.failed++
		}
		// A test that ran when the program died never ended: show it. Sorted, the
		// package's own output comes first.
		for _, k := range slices.Sorted(maps.Keys(s.output)) {
			if strings.HasPrefix(k, key) {
				fmt.Fprint(s.out, s.output[k])
			}
		}
		fmt.Fprintf(s.out, "FAIL  %s: %d passed, %d failed (%.1f s)\n", e.Package, t.passed, max(t.failed, 1), e.Elapsed)
	case "skip": // no test files
	default:
		return
	}
	for k := range s.output {
		if strings.HasPrefix(k, key) {
			delete(s.output, k)
		}
	}
	delete(s.packages, e.Package)
}

// broken ends a module whose `go test` returned err. An error that no event
// told of, such as a go.mod that cannot be read, is one failure.
func (s *summary) broken(module string, err error) {
	if err != nil && s.failures == 0 {
		s.failed++
		fmt.Fprintf(s.out, "FAIL  %s: go test: %v\n", module, err)
	}
	s.failures = 0
}

// close prints the sum and reports whether all is well.
func (s *summary) close() bool {
	fmt.Fprintf(s.out, "%d passed, %d failed\n", s.passed, s.failed)
	return s.failed == 0
}

func (s *summary) buffer(key string) *strings.Builder {
	if s.output[key] == nil {
		s.output[key] = new(strings.Builder)
	}
	return s.output[key]
}

func (s *summary) tally(pkg string) *tally {
	if s.packages[pkg] == nil {
		s.packages[pkg] = new(tally)
	}
	return s.packages[pkg]
}
