package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// ours begins the import paths of the workspace.
const ours = "github.com/sluicehq/sluice"

// early are the packages that start first: their tests wait the longest, so that the
// others run meanwhile.
var early = []string{
	"checks/faults",
	"checks/servers",
	"checks/redis",
	"checks/decisions",
}

// The race detector makes a test three to fifteen times as slow, and finds nothing where
// only one goroutine runs. So these tables say where it is left out. What they do not
// name runs with it.

// plain are the packages whose tests run without the race detector, with the reason.
var plain = map[string]string{
	"algo":                       "pure functions",
	"checks/cmd/bench":           "prints what others measure",
	"checks/cmd/bench/figures":   "one goroutine writes tables",
	"checks/cmd/bench/inprocess": "measures, which the race detector falsifies",
	"checks/cmd/bench/overredis": "measures, which the race detector falsifies",
	"checks/decisions":           "one goroutine asks both stores in turn; checks/redis and checks/faults have the crowds",
	"checks/floor":               "code to compare with, which no user runs",
	"checks/laws":                "one goroutine asks the store and the oracle in turn",
	"checks/linearizable":        "most of it is the checker of histories; the tests of memory watch for races",
	"checks/peers":               "code of others",
	"checks/promises":            "reads the documentation",
	"checks/redistest":           "a harness, whose users run with it",
	"checks/servers":             "asks servers that are processes of their own",
	"checks/vectors":             "one goroutine replays a vector",
	"internal/oracle":            "pure functions",
	"memory":                     "most tests fill tables from one goroutine; see crowded for the others",
	"policy":                     "decides for one caller at a time; see crowded for the exception",
	"policyfile":                 "reads a file; see crowded for the exception",
	"storetest":                  "the stores that it tests run with it",
}

// crowded are the tests of plain packages that also run with the race detector.
var crowded = map[string][]string{
	"memory":     {"TestContract", "TestTogetherCompete", "TestLimitsComeAndGoConcurrently", "TestCloseFreesAndLeavesNobody"},
	"policy":     {"TestVerdictsAreTheirOwn"},
	"policyfile": {"TestExpressionConcurrently"},
}

// lone are the tests of the other packages that run only without the race detector: they
// try a great many inputs from one goroutine.
var lone = map[string][]string{
	".":          {"TestKeysDiffer"},
	"httplimit":  {"TestDelimiterInjection", "TestForwardedForSpoofing", "TestRulesAreMetByWhatReachesTheirHandlers", "TestSameHandlerSameKey"},
	"redisstore": {"TestKeysAreInjective"},
}

// A run is one `go test` over some packages of one module or workspace.
type run struct {
	name     string
	dir      string
	env      []string
	race     bool
	flags    []string
	together int // how many packages may run, or compile, at once; 0: as many as there are processors
	packages []string
}

// plan returns what tests the packages of the workspace, in chains that go on at once. The
// runs of a chain share what they compile. With tests picked by the caller, each package is in
// one run.
func plan(packages []string, picked bool) (chains [][]run) {
	packages = inOrder(packages)
	raced := run{name: "with the race detector", race: true, together: 3}
	alone := run{name: "without the race detector", together: 2}
	for _, p := range packages {
		if _, found := plain[room(p)]; found {
			alone.packages = append(alone.packages, p)
		} else {
			raced.packages = append(raced.packages, p)
		}
	}
	second := []run{alone}
	if !picked {
		raced.flags = []string{"-skip", names(lone)}
		second = append(second,
			run{name: "lone tests", packages: in(packages, lone), flags: []string{"-run", names(lone)}},
			run{name: "crowded tests", packages: in(packages, crowded), flags: []string{"-run", names(crowded)}, race: true},
		)
	}
	for _, chain := range [][]run{{raced}, second} {
		chain = slices.DeleteFunc(chain, func(r run) bool { return len(r.packages) == 0 })
		for i := range chain {
			chain[i].dir = "."
		}
		chains = append(chains, chain)
	}
	return chains
}

// picks reports whether flags of `go test` pick tests.
func picks(flags []string) bool {
	return slices.ContainsFunc(flags, func(f string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(f, "-"), "=")
		return name == "run" || name == "skip" || name == "list"
	})
}

// names returns a pattern for the tests of a table.
func names(table map[string][]string) string {
	var all []string
	for _, room := range slices.Sorted(maps.Keys(table)) {
		all = append(all, table[room]...)
	}
	return "^(" + strings.Join(all, "|") + ")$"
}

// in returns the packages that are in a table.
func in(packages []string, table map[string][]string) (some []string) {
	for _, p := range packages {
		if table[room(p)] != nil {
			some = append(some, p)
		}
	}
	return some
}

// inOrder returns the packages with the early ones first: `go test` starts them in the
// order in which it is given them.
func inOrder(packages []string) []string {
	var all []string
	for _, e := range early {
		if p := ours + "/" + e; slices.Contains(packages, p) {
			all = append(all, p)
		}
	}
	for _, p := range packages {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// room returns the folder of a package, seen from the top of the repository.
func room(p string) string {
	if p == ours {
		return "."
	}
	return strings.TrimPrefix(p, ours+"/")
}

// test runs the tests and writes their events.
func (r *run) test(flags []string, events io.Writer) error {
	args := []string{"test", "-json"}
	if r.race {
		args = append(args, "-race")
	}
	if r.together > 0 {
		args = append(args, "-p", strconv.Itoa(r.together))
	}
	args = slices.Concat(args, r.flags, flags, r.packages)
	cmd := exec.Command("go", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), r.env...)
	cmd.Stdout = events
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
