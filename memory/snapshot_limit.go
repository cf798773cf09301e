package memory

import (
	"encoding/binary"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// savedLimit is a limit in saved states: the number by which states refer to it, its name, and the
// numbers of its algorithm.
type savedLimit struct {
	number  uint64
	name    string
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

// describeLimit returns what is saved about a limit.
func describeLimit(number uint64, l *sluice.Limit) savedLimit {
	s := savedLimit{number: number, name: l.Name(), kind: l.Params().Kind}
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

// append appends the limit to a block.
func (s *savedLimit) append(b []byte) []byte {
	b = appendString(binary.AppendUvarint(b, s.number), s.name)
	b = append(b, byte(s.kind), s.flags)
	b = binary.AppendVarint(b, s.rate.Count())
	b = binary.AppendVarint(b, int64(s.rate.Period()))
	for _, n := range s.numbers {
		b = binary.AppendVarint(b, n)
	}
	return binary.AppendVarint(appendString(b, s.zone), s.offset)
}

// readLimit reads what append has written.
func readLimit(f *fields) (s savedLimit) {
	s.number, s.name = f.uvarint(), f.string()
	s.kind, s.flags = algo.Kind(f.byte()), f.byte()
	count := f.varint()
	s.rate = sluice.Per(count, time.Duration(f.varint()))
	for i := range s.numbers {
		s.numbers[i] = f.varint()
	}
	s.zone, s.offset = f.string(), f.varint()
	return s
}

// limit makes the limit again.
func (s *savedLimit) limit() (*sluice.Limit, error) {
	n, countDenied := &s.numbers, s.flags&flagCountDenied != 0
	if cells := n[0]; s.kind == algo.KindSlidingWindow && int64(int(cells)) != cells {
		return nil, damaged("limit %q has %d cells", s.name, cells)
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
		return nil, damaged("limit %q has an unknown algorithm, %d", s.name, s.kind)
	}
	l, err := sluice.NewLimit(s.name, a)
	switch {
	case err != nil:
		return nil, damaged("%v", err)
	case l.Params().Kind != s.kind:
		return nil, damaged("limit %q has numbers of another algorithm", s.name)
	}
	return l, nil
}

// location returns the time zone of a calendar. If this machine does not have the zone, its states
// are converted from a zone with the same distance from UTC.
func (s *savedLimit) location() *time.Location {
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		return time.FixedZone(s.zone, int(s.offset))
	}
	return zone
}
