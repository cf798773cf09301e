package redisstore

import (
	"encoding/binary"

	"github.com/sluicehq/sluice/internal/algo"
)

// logKind keeps a sliding log as a sorted set of its entries. A view has one or two of
// them: the newest, and the last one that must go before there is room.
var logKind = kind{
	word:   "log",
	script: "log",
	quick:  "log_quick",
	numbers: func(p *algo.Params) []int64 {
		return []int64{p.Log.Count, p.Log.Length, p.Log.MinInterval, denied(p)}
	},
	read: readLog,
}

// readLog reads the time of the newest entry and the units that count. For the entry that
// must go, it reads the time, and the units up to and including it. For a log that is kept under
// other numbers, it reads until when a request waits.
func readLog(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.more() {
		return algo.State{}, make([]uint64, p.Log.Words(1))
	}
	last := r.int()
	if last == -1 { // the log is kept under other numbers
		r.awaits, r.until, r.reset, r.left = true, r.count(), r.count(), r.count()
		last = r.int()
	}
	if last < 0 || last > exact {
		r.fail()
	}
	used := r.count()
	words := make([]uint64, 0, p.Log.Words(2))
	words = append(words, 1, 0) // entries; units before them
	if r.more() {
		at, upTo := r.count(), r.count()
		if at > last || upTo < 1 || upTo > used {
			r.fail()
		}
		if upTo < used {
			words[0] = 2
			words = append(words, uint64(at), uint64(upTo))
		}
	}
	if used < 1 || r.more() {
		r.fail()
	}
	return algo.State{}, append(words, uint64(last), uint64(used))
}

// leasesKind keeps the leases of a concurrency limit as a sorted set. A view has one or two
// leases in place of all of them.
var leasesKind = kind{
	word:   "leases",
	script: "leases",
	quick:  "leases_quick",
	numbers: func(p *algo.Params) []int64 {
		c := &p.Conc
		return []int64{c.Max, c.Queue, c.TTL, c.Latency}
	},
	read: readLeases,
}

// readLeases reads the request's member, the time of the latest charge, the reported
// latency and its time, the units held, and their latest expiry. More follows if the member
// holds a lease or must wait for one.
func readLeases(r *reader, p *algo.Params) (algo.State, []uint64) {
	words := make([]uint64, p.Conc.Words(0), p.Conc.Words(2))
	if !r.more() {
		return algo.State{}, words
	}
	member := uint64(0)
	switch text := r.text(); len(text) {
	case 0:
	case 8:
		member = binary.LittleEndian.Uint64([]byte(text))
	default:
		r.fail()
	}
	words[1], words[2], words[3] = uint64(r.count()), uint64(r.count()), uint64(r.count())
	add := func(member uint64, units, until int64) {
		if units < 0 {
			r.fail()
		} else if units > 0 {
			words[0]++
			words = append(words, member, uint64(until), uint64(units))
		}
	}
	units, latest := r.count(), r.count()
	if r.more() {
		holds, some, until := r.count() == 1, r.count(), latest
		of := ^member // any other member
		if holds {
			of = member
		} else {
			until = r.count()
		}
		add(of, some, until)
		units -= some
	}
	add(^member, units, latest)
	if r.more() {
		r.fail()
	}
	return algo.State{}, words
}
