// Package savedlimit writes the numbers of a limit to bytes, and reads them again, for states that are kept outside of a
// process: a program that reads a state needs the numbers under which it was written.
package savedlimit

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// Numbers are the algorithm of a limit and its numbers.
type Numbers struct {
	kind    algo.Kind
	rate    sluice.Rate
	numbers [4]int64
	flags   byte
	zone    string
	offset  int64 // of the zone in January, in seconds
}

const (
	flagCountDenied = 1 << iota
	flagOpened
)

// Of returns the numbers of a limit.
func Of(l *sluice.Limit) Numbers {
	s := Numbers{kind: l.Params().Kind}
	count := func(denied bool) {
		if denied {
			s.flags |= flagCountDenied
		}
	}
	switch a := l.Algorithm().(type) {
	case sluice.TokenBucket:
		s.rate, s.numbers = a.Rate, [4]int64{a.Burst, a.Debt, int64(a.WarmUp), a.ColdFactor}
	case sluice.LeakyBucket:
		s.rate, s.numbers = a.Rate, [4]int64{a.Queue, a.Undelayed}
	case sluice.FixedWindow:
		s.rate, s.numbers = a.Rate, [4]int64{int64(a.Calendar)}
		count(a.CountDenied)
		if a.Opened {
			s.flags |= flagOpened
		}
		if a.Calendar != 0 {
			c := algo.Calendar{Unit: algo.Unit(a.Calendar), Zone: a.Zone}
			s.zone, s.offset = a.Zone.String(), int64(c.ZoneID().Winter)
		}
	case sluice.SlidingWindow:
		s.rate, s.numbers = a.Rate, [4]int64{int64(a.Cells)}
		count(a.CountDenied)
	case sluice.SlidingCounter:
		s.rate = a.Rate
		count(a.CountDenied)
	case sluice.SlidingLog:
		s.rate, s.numbers = a.Rate, [4]int64{int64(a.MinInterval)}
		count(a.CountDenied)
	case sluice.Concurrency:
		s.numbers = [4]int64{a.Max, a.Queue, int64(a.TTL), int64(a.Latency)}
	}
	return s
}

// Append appends the numbers to b.
func (s *Numbers) Append(b []byte) []byte {
	b = append(b, byte(s.kind), s.flags)
	b = binary.AppendVarint(b, s.rate.Count())
	b = binary.AppendVarint(b, int64(s.rate.Period()))
	for _, n := range s.numbers {
		b = binary.AppendVarint(b, n)
	}
	b = append(binary.AppendUvarint(b, uint64(len(s.zone))), s.zone...)
	return binary.AppendVarint(b, s.offset)
}

// Read reads what Append has written, and returns what follows it. ok is false if b ends too early.
func Read(b []byte) (s Numbers, rest []byte, ok bool) {
	if len(b) < 2 {
		return s, nil, false
	}
	s.kind, s.flags, b = algo.Kind(b[0]), b[1], b[2:]
	ok = true
	next := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	count := next()
	s.rate = sluice.Per(count, time.Duration(next()))
	for i := range s.numbers {
		s.numbers[i] = next()
	}
	length, n := binary.Uvarint(b)
	if !ok || n <= 0 || length > uint64(len(b)-n) {
		return s, nil, false
	}
	s.zone, b = string(b[n:n+int(length)]), b[n+int(length):]
	s.offset = next()
	return s, b, ok
}

// Limit makes the limit again, with a name.
func (s *Numbers) Limit(name string) (*sluice.Limit, error) {
	n, countDenied := &s.numbers, s.flags&flagCountDenied != 0
	if cells := n[0]; s.kind == algo.KindSlidingWindow && int64(int(cells)) != cells {
		return nil, fmt.Errorf("limit %q has %d cells", name, cells)
	}
	var a sluice.Algorithm
	switch s.kind {
	case algo.KindBucket, algo.KindWarmBucket:
		a = sluice.TokenBucket{Rate: s.rate, Burst: n[0], Debt: n[1], WarmUp: time.Duration(n[2]), ColdFactor: n[3]}
	case algo.KindLeaky:
		a = sluice.LeakyBucket{Rate: s.rate, Queue: n[0], Undelayed: n[1]}
	case algo.KindFixedWindow:
		w := sluice.FixedWindow{Rate: s.rate, Opened: s.flags&flagOpened != 0, Calendar: sluice.CalendarUnit(n[0]), CountDenied: countDenied}
		if w.Calendar != 0 {
			w.Zone = s.location()
		}
		a = w
	case algo.KindSlidingWindow:
		a = sluice.SlidingWindow{Rate: s.rate, Cells: int(n[0]), CountDenied: countDenied}
	case algo.KindSlidingCounter:
		a = sluice.SlidingCounter{Rate: s.rate, CountDenied: countDenied}
	case algo.KindSlidingLog:
		a = sluice.SlidingLog{Rate: s.rate, MinInterval: time.Duration(n[0]), CountDenied: countDenied}
	case algo.KindConcurrency:
		a = sluice.Concurrency{Max: n[0], Queue: n[1], TTL: time.Duration(n[2]), Latency: time.Duration(n[3])}
	default:
		return nil, fmt.Errorf("limit %q has an unknown algorithm, %d", name, s.kind)
	}
	l, err := sluice.NewLimit(name, a)
	switch {
	case err != nil:
		return nil, err
	case l.Params().Kind != s.kind:
		return nil, fmt.Errorf("limit %q has numbers of another algorithm", name)
	}
	return l, nil
}

// location returns the time zone of a calendar. If this machine does not have the zone, its states
// are converted from a zone with the same distance from UTC.
func (s *Numbers) location() *time.Location {
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		return time.FixedZone(s.zone, int(s.offset))
	}
	return zone
}
