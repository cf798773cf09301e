package proxy

import (
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
)

// TestKeptConnectionsAreSmall keeps many unused connections to a service, and compares the memory with http.Transport's.
// With SLUICE_SOAK there are 9,000.
func TestKeptConnectionsAreSmall(t *testing.T) {
	if noDirect {
		return // it measures both paths
	}
	n := 200
	if os.Getenv("SLUICE_SOAK") != "" {
		n = 9000
	}
	direct, other := memoryOfKept(t, n, true), memoryOfKept(t, n, false)
	t.Logf("%d connections: %d bytes each, http.Transport's and its service's %d", n, direct, other)
	if direct > other*2/3 {
		t.Errorf("a kept connection takes %d bytes, http.Transport's %d", direct, other)
	}
}

// memoryOfKept returns the bytes of heap and stacks for each of some unused connections, with the side of the service.
func memoryOfKept(t *testing.T, n int, direct bool) int64 {
	t.Helper()
	var arrived sync.WaitGroup
	arrived.Add(n)
	s := service(t, func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait() // all connections are in use at once
	})
	tr := newTransport(t, TransportOptions{MaxIdle: n})
	tr.direct = direct
	before := memoryInUse()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				t.Error(err)
				return
			}
			res, err := tr.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		})
	}
	all.Wait()
	used := (memoryInUse() - before) / int64(n)
	tr.Close()
	s.CloseClientConnections()
	return used
}

// memoryInUse returns the bytes of heap and stacks in use.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // what pools hold is free after the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
