package inprocess

import (
	"fmt"
	"math"

	"github.com/sluicehq/sluice/bench/floor"
	"github.com/sluicehq/sluice/bench/peers"
)

// kind is the role of a subject.
type kind int

const (
	ours  kind = iota
	bound      // a floor
	peer
)

// A subject is a limiter to measure.
type subject struct {
	name  string
	kind  kind
	keyed bool // has a limit per key
	own   bool // keeps its keys itself, not in a map we put around it
	exact bool // counts exactly

	// open makes one with room for this many keys.
	open func(l peers.Limit, keys int) (peers.Limiter, error)
}

// The names of the floors. Bars use them.
const (
	floorTable    = "floor-table"
	floorDecision = "floor-decision"
)

// subjects returns all subjects: ours first, then floors, then peers.
func subjects() []subject {
	all := sluiceSubjects()
	all = append(all,
		subject{floorTable, bound, true, true, true, func(l peers.Limit, keys int) (peers.Limiter, error) {
			return floor.NewTable(2*keys, math.MaxInt64), nil
		}},
		subject{floorDecision, bound, true, true, true, func(l peers.Limit, keys int) (peers.Limiter, error) {
			return floor.NewDecision(2*keys, l.Every, l.Burst), nil
		}},
	)
	for _, p := range peers.All() {
		open := func(l peers.Limit, _ int) (peers.Limiter, error) { return p.New(l) }
		all = append(all, subject{p.Name, peer, p.Keyed, p.Keyed && !p.Mapped, !p.Approximate, open})
	}
	return all
}

// isPeer reports whether a subject is a peer. isKeyedPeer reports whether it is a peer that keeps its keys
// itself.
func isPeer(name string) bool {
	return has(name, func(s subject) bool { return s.kind == peer })
}

func isKeyedPeer(name string) bool {
	return has(name, func(s subject) bool { return s.kind == peer && s.own })
}

// isExactKeyedPeer reports whether a subject is a peer with a limit per key that counts exactly.
func isExactKeyedPeer(name string) bool {
	return has(name, func(s subject) bool { return s.kind == peer && s.keyed && s.exact })
}

func has(name string, property func(subject) bool) bool {
	for _, s := range subjects() {
		if s.name == name {
			return property(s)
		}
	}
	return false
}

// limiters are open at the same time.
type limiters []peers.Limiter

// add opens one more limiter.
func (ls *limiters) add(s subject, l peers.Limit, keys int) (peers.Limiter, error) {
	limiter, err := s.open(l, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	*ls = append(*ls, limiter)
	return limiter, nil
}

func (ls *limiters) close() {
	for _, l := range *ls {
		l.Close()
	}
}
