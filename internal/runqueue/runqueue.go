// Package runqueue measures how long this process waits for a processor. Tests of rates in real time use it: on a busy machine a
// process moves too few bytes because it does not run, and not because of its code.
package runqueue

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Waited returns how long the threads of this process were ready to run while other threads had the processors, in sum. It is
// zero on systems other than Linux. A thread that ends takes its time with it, so a difference may be too small.
func Waited() time.Duration {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return 0 // the pattern is valid
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		// The fields are the time on processors, the time of waiting, and the number of turns.
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				sum += time.Duration(n)
			}
		}
	}
	return sum
}

// Least returns which part of an expected amount a process moves at least if it waits for a processor for a part of the time, and moves
// the amount within an error otherwise. A process that hardly waits gets no allowance, and none gets more than a half.
func Least(failure, starved float64) float64 {
	const hardly, most = 0.1, 0.5
	if starved < hardly {
		starved = 0
	}
	return 1 - failure - min(starved, most)
}

// Starved returns which part of the real time of a function its process waited for a processor, at most 1.
func Starved(do func()) float64 {
	began, before := time.Now(), Waited()
	do()
	share := float64(Waited()-before) / float64(time.Since(began))
	return min(max(share, 0), 1)
}
