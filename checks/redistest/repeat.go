package redistest

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// soakEnv names how many times as much as usual a test does what it repeats: `make soak`
// sets it. Without it, tests do enough to catch a mistake that one change in a few
// hundred requests brings out.
const soakEnv = "SLUICE_SOAK"

// Times returns how often a test repeats something: n times, a third of that over Valkey,
// which runs the same scripts; and SLUICE_SOAK times as often if that is set.
func Times(tb testing.TB, n int) int {
	tb.Helper()
	factor := 1
	if text := os.Getenv(soakEnv); text != "" {
		var err error
		if factor, err = strconv.Atoi(text); err != nil || factor < 1 {
			tb.Fatalf("%s is %q; want how many times as much as usual to do, as 100", soakEnv, text)
		}
	}
	if OverValkey(tb) {
		n = (n + 2) / 3
	}
	return n * factor
}

// Parallel lets so many parallel tests of a program run at once, unless its -parallel
// says otherwise: more than there are processors, for tests that mostly wait for servers.
// Call it in TestMain.
func Parallel(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // fails in no test program
	}
}
