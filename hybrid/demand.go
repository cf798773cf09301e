package hybrid

import "math"

// Decisions in the time between synchronisations: from hotFrom on, a key is granted; below coldTo
// it is not granted any more.
const (
	hotFrom = 8
	coldTo  = 2
)

// demand estimates how many units per nanosecond the clients of this process request.
type demand struct {
	rate     float64 // units
	requests float64 // requests that could use a grant
	busy     float64 // all requests
	began    int64   // when the current sample began, by the monotonic clock
	last     int64   // the last request, by the monotonic clock
	from     counted // the counts at began
	useless  uint64  // requests that a grant could not have helped
	sampled  bool    // a sample is complete
}

type counted struct{ requests, units, useless uint64 }

// weight is the part of a new sample in the estimate.
const weight = 0.4

// count takes the counts of requests into account, at a time. It completes a sample of the given
// length.
func (d *demand) count(requests, units uint64, now, length int64) {
	took := now - d.began
	if took < length {
		return
	}
	part := 1.0
	if d.sampled {
		part = 1 - math.Pow(1-weight, float64(took)/float64(length))
	}
	d.busy += part * (float64(requests-d.from.requests)/float64(took) - d.busy)
	d.requests += part * (float64(requests-d.from.requests-(d.useless-d.from.useless))/float64(took) - d.requests)
	d.rate += part * (float64(units-d.from.units)/float64(took) - d.rate)
	d.sampled = d.sampled || requests != d.from.requests
	d.began, d.from = now, counted{requests, units, d.useless}
}

// now returns the estimate. The sample that is not complete counts if it is much more.
func (d *demand) now(units uint64, now, length int64) float64 {
	took := max(now-d.began, length/4)
	if begun := float64(units-d.from.units) / float64(took); begun > 2*d.rate {
		return begun
	}
	return d.rate
}

// useful returns how many requests of the current sample could have used a grant.
func (d *demand) useful(requests uint64) uint64 {
	return requests - d.from.requests - (d.useless - d.from.useless)
}

// cost returns the usual cost of a request, rounded up.
func (d *demand) cost() int64 {
	if d.requests <= 0 {
		return 1
	}
	return max(1, int64(math.Ceil(d.rate/d.requests-1e-6)))
}
