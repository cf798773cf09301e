package redisstore

import (
	_ "embed" // the scripts

	"github.com/sluicehq/sluice/algo"
)

var (
	//go:embed scripts/cells.lua
	cellsScript string
	//go:embed scripts/cells_quick.lua
	cellsQuick string
)

var cellsKind = kind{
	word:   "sliding",
	script: cellsScript,
	quick:  cellsQuick,
	numbers: func(p *algo.Params) []int64 {
		return []int64{p.Cells.Count, p.Cells.Length, p.Cells.Cells, denied(p)}
	},
	read: readCells,
}

// readCells reads the number of the newest cell, and the units of cells, the newest first.
func readCells(r *reader, p *algo.Params) (algo.State, []uint64) {
	words := make([]uint64, p.Cells.Words())
	if !r.holds(algo.KindSlidingWindow) {
		return algo.State{}, words
	}
	newest, n := r.count(), r.list()
	if n > int(p.Cells.Cells)+1 || newest < int64(n)-1 || newest > exact/(p.Cells.Length/p.Cells.Cells) {
		r.fail()
		return algo.State{}, words
	}
	cells := make([]uint64, n)
	for i := range cells {
		cells[i] = uint64(r.count())
	}
	p.Cells.Restore(words, newest, cells)
	return algo.State{}, words
}
