package live

import (
	"math"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// Span is how much of the past a series has.
type Span uint8

// The spans of a history.
const (
	Hour Span = iota // by 10 seconds
	Day              // by minutes
	spans
)

// SpanNames are the names of the spans.
var SpanNames = [spans]string{Hour: "hour", Day: "day"}

const (
	hourSteps = 360
	daySteps  = 1440
)

// ringTimes are the steps of each span.
var ringTimes = [spans]struct {
	step  time.Duration
	steps int
}{Hour: {10 * time.Second, hourSteps}, Day: {time.Minute, daySteps}}

// ring is the history of a rule. Step i of a span, counted from the start of the history, is at i modulo the number of
// steps.
type ring struct {
	hour [hourSteps][telemetry.Figures]uint32
	day  [daySteps][telemetry.Figures]uint32
	// last is the time of the last requests, since the start of the history.
	last time.Duration
}

// steps returns the steps of a span.
func (r *ring) steps(s Span) [][telemetry.Figures]uint32 {
	return [...][][telemetry.Figures]uint32{Hour: r.hour[:], Day: r.day[:]}[s]
}

// add adds the requests of a time. A nil ring keeps nothing. Times only grow.
func (r *ring) add(at time.Duration, counted *telemetry.Totals) {
	if r == nil {
		return
	}
	for s := range spans {
		steps, step := r.steps(s), ringTimes[s].step
		to := at / step
		for i := max(r.last/step, to-time.Duration(len(steps))) + 1; i <= to; i++ {
			clear(steps[int(i)%len(steps)][:])
		}
		for f, n := range counted {
			sum := uint64(steps[int(to)%len(steps)][f]) + n
			steps[int(to)%len(steps)][f] = uint32(min(sum, math.MaxUint32))
		}
	}
	r.last = at
}

// read adds the steps of a span, up to the step last, to others.
func (r *ring) read(s Span, last time.Duration, to [][telemetry.Figures]uint32) {
	steps, newest := r.steps(s), int(r.last/ringTimes[s].step)
	for i := range to {
		at := int(last) - (len(to) - 1 - i)
		if at > newest || at <= newest-len(steps) {
			continue
		}
		for f, n := range steps[at%len(steps)] {
			to[i][f] = uint32(min(uint64(to[i][f])+uint64(n), math.MaxUint32))
		}
	}
}
