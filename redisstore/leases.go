package redisstore

import (
	_ "embed" // the scripts
	"encoding/binary"

	"github.com/sluicehq/sluice/algo"
)

var (
	//go:embed scripts/leases.lua
	leasesScript string
	//go:embed scripts/leases_quick.lua
	leasesQuick string
)

// leasesKind keeps the leases of a concurrency limit as a sorted set. What is answered
// from is one or two leases that stand for all of them.
var leasesKind = kind{
	word:   "leases",
	script: leasesScript,
	needs:  needSets,
	quick:  leasesQuick,
	numbers: func(p *algo.Params) []int64 {
		c := &p.Conc
		return []int64{c.Max, c.Queue, c.TTL, c.Latency}
	},
	read: readLeases,
}

// readLeases reads who asks, the time of the latest charge, the latency that was
// reported and when, the units that are held, and until when. More follows when who asks
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
		of := ^member // anybody else
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
