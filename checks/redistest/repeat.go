package redistest

import (
	"flag"
	"strconv"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
)

// Times is soak.Times for a test on Redis. Over Valkey, which runs the same scripts, it returns a third.
func Times(tb testing.TB, n int) int {
	tb.Helper()
	if OverValkey(tb) {
		n = (n + 2) / 3
	}
	return soak.Times(tb, n)
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
