package redisstore

import (
	_ "embed" // the scripts

	"github.com/sluicehq/sluice/algo"
)

var (
	//go:embed scripts/log.lua
	logScript string
	//go:embed scripts/log_quick.lua
	logQuick string
)

// logKind keeps a sliding log as a sorted set of its entries. What is answered from is a
// log of one or two: the newest one, and the one that must go before there is room.
var logKind = kind{
	word:   "log",
	script: logScript,
	needs:  needSets,
	quick:  logQuick,
	numbers: func(p *algo.Params) []int64 {
		return []int64{p.Log.Count, p.Log.Length, p.Log.MinInterval, denied(p)}
	},
	read: readLog,
}

// readLog reads the time of the newest entry and the units that count, and, of the
// entry that must go, its time and the units up to and with it.
func readLog(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.more() {
		return algo.State{}, make([]uint64, p.Log.Words(1))
	}
	last, used := r.count(), r.count()
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
