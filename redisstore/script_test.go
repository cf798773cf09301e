package redisstore

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
)

// TestScriptsHaveTheirFragments makes every script, and looks for shared fragments that are missing or there
// twice.
func TestScriptsHaveTheirFragments(t *testing.T) {
	all := uint(1<<len(kinds) - 2)
	for name, sc := range map[string]*script{
		"decide log":   decideScripts.get(1<<algo.KindSlidingLog, decideFiles),
		"finish leaky": finishScripts.get(1<<algo.KindLeaky, finishFiles),
		"reset bucket": resetScripts.get(1<<algo.KindBucket, resetFiles),
		"grant bucket": grantScripts.get(1<<algo.KindBucket, grantFiles),
		"batch of all": batchScripts.get(all, batchFiles),
	} {
		for _, line := range []string{"local kinds = {}", "local function px(", "redis.call('TIME')"} {
			if n := strings.Count(sc.source, line); n != 1 {
				t.Errorf("%s has %q %d times", name, line, n)
			}
		}
	}
	for fragment, line := range map[string]string{
		"product": "local function muldiv(", "ticks": "local function level(", "sets": "local function head(", "escrow": "escrow = function(",
	} {
		if n := strings.Count(batchScripts.get(all, batchFiles).source, line); n != 1 {
			t.Errorf("a batch of all kinds has fragment %q %d times", fragment, n)
		}
		for i := algo.KindBucket; int(i) < len(kinds); i++ {
			want := 0
			if fragmentUsers[fragment]&(1<<i) != 0 {
				want = 1
			}
			if n := strings.Count(decideScripts.get(1<<i, decideFiles).source, line); n != want {
				t.Errorf("the script of kind %d has fragment %q %d times, want %d", i, fragment, n, want)
			}
		}
	}
}
