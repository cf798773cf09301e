// Package load makes the calls of the benchmark's clients: as many as a server answers, or at a steady rate.
package load

import (
	"errors"
	"sync"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
)

// A Result is what callers have measured.
type Result struct {
	Calls     int64
	Took      time.Duration
	Latencies fleet.Latencies
}

// Run lets callers make calls for a time. The function caller returns the function with which one caller makes a call.
//
// If the rate is 0, a caller makes the next call when it has its answer. Otherwise all callers together make so many calls a
// second, each at its time, whatever the answers. If a caller still waits for an answer when its next call is due, the
// latency of that call counts from then: no slow answer hides the calls that wait behind it. If a timer wakes an idle
// caller late, as timers of Go do by up to a millisecond, the latency counts from when the caller wakes.
func Run(callers, rate int, length time.Duration, caller func(i int) (call func() error)) (*Result, error) {
	var all sync.WaitGroup
	var gap time.Duration
	if rate > 0 {
		gap = time.Second * time.Duration(callers) / time.Duration(rate)
	}
	each := make([]Result, callers)
	errs := make([]error, callers)
	began := time.Now()
	for i := range callers {
		call := caller(i)
		all.Go(func() {
			errs[i] = each[i].run(call, began, began.Add(gap*time.Duration(i)/time.Duration(callers)), gap, length)
		})
	}
	all.Wait()
	sum := &Result{Took: time.Since(began)}
	for i := range each {
		sum.Calls += each[i].Calls
		sum.Latencies.Merge(&each[i].Latencies)
	}
	return sum, errors.Join(errs...)
}

// run makes the calls of one caller.
func (r *Result) run(call func() error, began, due time.Time, gap, length time.Duration) error {
	for ; ; due = due.Add(gap) {
		now := time.Now()
		if gap == 0 {
			due = now
		}
		if due.Sub(began) >= length {
			return nil
		}
		from := due
		if wait := due.Sub(now); wait > 0 {
			time.Sleep(wait) //nolint:forbidigo // the load has a real rate
			from = time.Now()
		}
		if err := call(); err != nil {
			return err
		}
		r.Calls++
		r.Latencies.Add(time.Since(from))
	}
}
