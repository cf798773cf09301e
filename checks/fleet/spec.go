package fleet

import (
	"strconv"
	"time"
)

// The subjects.
const (
	Hybrid = "hybrid" // package hybrid over Redis
	Exact  = "exact"  // Redis, one call for each decision
	Memory = "memory" // each process by itself
	Naive  = "naive"  // counts locally, and synchronises now and then
	// Gubernator is a daemon of that project, in a cluster of all processes. It needs Spec.Program and
	// Spec.Peers.
	Gubernator = "gubernator"
)

// A Spec says what a process does.
type Spec struct {
	Subject string
	Route   Route
	Loads   []Load
	// Ledger is the file of the spends. Empty: none are written.
	Ledger string
	// Seed makes the times of requests differ between processes.
	Seed uint64
	// Tick is how often each load sends the requests that are due. Default: 10 ms.
	Tick time.Duration
	// Poisson sends each request at a time of its own, in place of Tick: the times between requests are
	// exponentially distributed. This takes more processor time.
	Poisson bool
	// Deadline bounds each decision. Default: 250 ms.
	Deadline time.Duration
	// Sync is how often the subjects naive and gubernator synchronise.
	Sync time.Duration
	// Peers are the addresses of all processes of a cluster. Peer is the index of this process.
	Peers []string
	Peer  int
	// Program is the file of the program to start. Default: the program that is running.
	Program string
}

// A Route says where Redis is.
type Route struct {
	Addrs  []string
	Master string // the name of the master, with sentinels at Addrs
}

// A Load is requests for one unit of a limit's key.
type Load struct {
	Terms     Terms
	Key       string
	PerSecond float64 // how many requests are sent; Process.Demand changes it
	// Copies, if it is not 0, is how many loads this is, about as many keys: Key followed by a number.
	Copies int
}

// complete fills in the defaults, and copies loads.
func (s *Spec) complete() {
	var loads []Load
	for _, l := range s.Loads {
		if l.Copies == 0 {
			loads = append(loads, l)
		}
		for i := range l.Copies {
			one := l
			one.Key += strconv.Itoa(i)
			loads = append(loads, one)
		}
	}
	s.Loads = loads
	if s.Tick == 0 {
		s.Tick = 10 * time.Millisecond
	}
	if s.Deadline == 0 {
		s.Deadline = 250 * time.Millisecond
	}
}

// command is a line from the parent.
type command struct {
	Demand []float64 // the new PerSecond of each load
	Race   *Race     // decide as fast as possible for a while
	Drain  bool      // return all grants
}

// Race is a measurement: callers that decide as fast as they can. The loads are the keys.
type Race struct {
	Callers int // in each process
	WarmUp  time.Duration
	Length  time.Duration
	Zipf    float64 // the exponent of the keys' popularity; 0: all keys are equally popular
}

// Stats answer a command.
type Stats struct {
	Decided, Allowed, Errors int64 // since the start, or in the race
	FirstError               string
	ByLoad                   []int64 // allowed
	Lost                     int64   // spends that did not fit into the ledger

	// A race also counts these.
	Took      time.Duration
	Latencies []uint32 // see type Latencies
	Processor time.Duration

	// The hybrid subject also counts these, since the start. Gubernator counts the calls that came from
	// other processes.
	Local, Exact, Cached, Calls int64
	Keys                        int64 // that a grant is in hand for
}
