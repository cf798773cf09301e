package figures

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Machine describes the machine.
func Machine() string {
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", cpu, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// Versions lists the versions of the given modules in this program.
func Versions(modules []string) Table {
	t := Table{{"module", "version"}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	wanted := map[string]bool{}
	for _, m := range modules {
		wanted[m] = true
	}
	for _, d := range info.Deps {
		if wanted[d.Path] {
			t = append(t, []string{d.Path, d.Version})
		}
	}
	return t
}

// Quiet measures how much of the machine this process gets. It returns the speed of each of two
// goroutines that only compute, divided by the speed of only one. That is 1 on a quiet machine of two
// cores, and one half if another process takes a core.
func Quiet() float64 {
	alone := spin(1)
	for range 2 {
		alone = min(alone, spin(1))
	}
	return float64(alone) / float64(spin(2))
}

// spin returns how long it takes when each of some goroutines computes something.
func spin(goroutines int) time.Duration {
	const work = 500_000
	var sums [2][8]uint64 // a cache line each
	return Turn(goroutines, func(g int) {
		x := uint64(g) + 1
		for range work {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		sums[g][0] = x
	})
}

// Turn runs work on some goroutines at once, and returns how long the slowest took.
func Turn(goroutines int, work func(goroutine int)) time.Duration {
	if goroutines == 1 {
		start := time.Now()
		work(0)
		return time.Since(start)
	}
	var ready, done sync.WaitGroup
	ready.Add(goroutines)
	release := make(chan struct{})
	for g := range goroutines {
		done.Go(func() {
			ready.Done()
			<-release
			work(g)
		})
	}
	ready.Wait()
	start := time.Now()
	close(release)
	done.Wait()
	return time.Since(start)
}

// A Timer reports how long the steps of a run take.
type Timer struct {
	w           io.Writer
	start, step time.Time
}

// StartTimer starts a timer that writes to w.
func StartTimer(w io.Writer) *Timer {
	now := time.Now()
	return &Timer{w, now, now}
}

// Step writes how long the step took that has just ended.
func (t *Timer) Step(name string) {
	fmt.Fprintf(t.w, "%-10s %5.1f s\n", name, time.Since(t.step).Seconds())
	t.step = time.Now()
}

// All writes how long all steps took.
func (t *Timer) All() { fmt.Fprintf(t.w, "%-10s %5.1f s\n\n", "all", time.Since(t.start).Seconds()) }
