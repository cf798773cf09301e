package hybrid

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// history keeps the last events of a world, and what is wrong with it. It writes texts only for a failure.
type history struct {
	since   time.Time
	lock    sync.Mutex
	events  []event
	first   int
	problem string
}

// kept is how many events a history keeps.
const kept = 160

// event is one thing that happened.
type event struct {
	at, till time.Duration // till: of the last request of several
	node     int
	what     happening
	claim    driver.Claim
	grant    driver.Grant
	again    bool
	err      error
	fault    fault
	units    int64 // spent, in several requests
}

type happening uint8

const (
	sends happening = iota
	handles
	receives
	decides
	refuses
	spends
	denies
	resets
	strikes
)

func (h *history) add(e event) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.problem != "" {
		return
	}
	e.at = time.Since(h.since)
	e.till = e.at
	if n := len(h.events); n > 0 {
		if last := &h.events[(h.first+n-1)%n]; e.joins(last) {
			last.units += e.units
			last.till = e.at
			return
		}
	}
	if len(h.events) < kept {
		h.events = append(h.events, e)
		return
	}
	h.events[h.first] = e
	h.first = (h.first + 1) % kept
}

// decided notes a decision that a process made by itself. Several decisions in a row are one event.
func (h *history) decided(node int, r *sluice.Request, d *sluice.Decision, local bool) {
	what := spends
	switch {
	case !d.Allowed:
		what = denies
	case !local:
		return
	}
	h.add(event{node: node, what: what, units: r.Cost})
}

// joins reports whether an event continues the last one.
func (e *event) joins(last *event) bool {
	return e.node == last.node && e.what == last.what && e.units > 0
}

// fail notes what is wrong. The first problem counts.
func (h *history) fail(format string, args ...any) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.problem == "" {
		h.problem = fmt.Sprintf("%12v: ", time.Since(h.since)) + fmt.Sprintf(format, args...)
	}
}

func (h *history) failed() bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.problem != ""
}

// trace returns the last events and the problem.
func (h *history) trace() string {
	h.lock.Lock()
	defer h.lock.Unlock()
	var b strings.Builder
	for i := range h.events {
		e := &h.events[(h.first+i)%len(h.events)]
		fmt.Fprintf(&b, "%12v: %v\n", e.at, e)
	}
	return b.String() + h.problem
}

func (e *event) String() string {
	c, g := &e.claim, &e.grant
	answer := fmt.Sprintf("%d units, held %d, birth %d, life %dµs, free %d, escrow %d of %d holders", g.Units, g.Held, g.Birth%1e6, g.Till-g.Now, g.Free, g.Escrow, g.Holders)
	switch {
	case e.err != nil:
		answer = "error: " + e.err.Error()
	case g.Stale:
		answer = "stale, " + answer
	}
	if c.Take > 0 && e.err == nil {
		answer += fmt.Sprintf(", allowed %v", g.Decision.Allowed)
	}
	name := fmt.Sprintf("process %d ", e.node)
	switch e.what {
	case sends:
		return name + fmt.Sprintf("sends claim %d: birth %d, spent %d, returned %d, take %d, want %d, at least %d", c.Seq%1e6, c.Birth%1e6, c.Spent, c.Returned, c.Take, c.Want, c.Least)
	case handles:
		again := ""
		if e.again {
			again = " again"
		}
		return fmt.Sprintf("server handles claim %d of process %d%s: %s", c.Seq%1e6, e.node, again, answer)
	case receives:
		return name + fmt.Sprintf("gets the answer to claim %d: %s", c.Seq%1e6, answer)
	case decides:
		return fmt.Sprintf("server allows process %d %d until %v", e.node, e.units, e.till)
	case refuses:
		return fmt.Sprintf("server denies process %d %d until %v", e.node, e.units, e.till)
	case spends:
		return name + fmt.Sprintf("spends %d until %v", e.units, e.till)
	case denies:
		return name + fmt.Sprintf("denies %d until %v", e.units, e.till)
	case resets:
		return "the key is reset"
	}
	return fmt.Sprintf("%v, process %d, %v", e.fault.what, e.fault.node, e.fault.long)
}
