package figures

import (
	"sync"
	"time"
)

// Turn runs work on so many goroutines at once and returns how long it took
// until the last was done.
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
