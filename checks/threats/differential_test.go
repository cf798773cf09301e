package threats

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
)

const (
	// attacks is how many attacks a run sends to each service.
	attacks = 130
	// unprotected is how many attacks are sent to each service without a sluice: enough to reach each handler.
	unprotected = 1200
	// usualSeed chooses the attacks of usual runs.
	usualSeed = 1
	// batch is how many attacks are sent before the records are judged.
	batch = 300
	// connections is how many connections to one service are open at once.
	connections = 12
	// shown is how many breaches of a promise are minimized and shown, over all services.
	shown = 2
)

// seedEnv chooses the attacks of a run. Without it, a run has the same attacks each time, and a
// soak has its own.
const seedEnv = "SLUICE_SEED"

// seedOf returns the seed of a run.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(usualSeed)
	if redistest.Times(t, 1) > 1 {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s is %q; want a number", seedEnv, text)
		}
	}
	t.Logf("%s=%d", seedEnv, seed)
	return seed
}

// TestNothingGetsPast sends generated requests through Sluice to several real servers. No request
// reaches a handler whose limit is used up, by the service's own account of method, path, host and
// values. No key has more than its limit, and no forged address arrives.
func TestNothingGetsPast(t *testing.T) {
	w := worldFor(t)
	seed := seedOf(t)
	total := redistest.Times(t, attacks)
	served := 0
	seen := map[string]int{}
	w.begun = time.Now()
	for first := 0; first < total; first += batch {
		sent := w.run(t, w.services, seed, first, min(batch, total-first), (*protected).attack)
		all, err := w.settle()
		if err != nil {
			t.Fatal(err)
		}
		served += len(all)
		w.judge(t, sent, all, seen)
		w.count(t, sent, all)
		if t.Failed() && len(seen) > 20 {
			break
		}
	}
	for _, s := range w.services {
		select {
		case <-s.sluice.Ended():
			t.Errorf("the sluice before %s ended with %d:\n%s", s.name, s.sluice.ExitCode(), s.sluice.Log())
		default:
		}
	}
	for promise, times := range seen {
		t.Errorf("%d requests got past %s", times, promise)
	}
	t.Logf("%d attacks, %d requests reached a service", total*len(w.services), served)
	if served < total {
		t.Errorf("only %d requests reached a service", served)
	}
}

// sent is an attack that was sent.
type sent struct {
	to     *protected
	seed   uint64
	number int
	attack attack
	text   []byte
}

// front returns the name of the sluice and the service that a record is of. If an attack has removed or
// changed its tag, the sluice is known by the protocol that it reports to the service.
func front(all map[string]sent, r *record) string {
	if s, found := all[r.Case]; found {
		return s.to.name
	}
	if slices.ContainsFunc(r.Forwarding, func(text string) bool { return strings.Contains(strings.ToLower(text), "proto: https") }) {
		return r.Server + overH2
	}
	return r.Server
}

// run sends attacks to services, and returns them by their tags.
func (w *world) run(t *testing.T, services []*protected, seed uint64, first, n int, send func(*protected, []byte) (string, error)) map[string]sent {
	t.Helper()
	byTag := map[string]sent{}
	type job struct {
		s    *protected
		text []byte
	}
	jobs := make([]chan job, len(services))
	var workers sync.WaitGroup
	var failing atomic.Int32
	for i := range services {
		jobs[i] = make(chan job, n)
		for range connections {
			workers.Go(func() {
				for j := range jobs[i] {
					if _, err := send(j.s, j.text); err != nil && failing.Add(1) < 10 {
						t.Errorf("%s: sending failed: %v", j.s.name, err)
					}
				}
			})
		}
	}
	for number := first; number < first+n; number++ {
		a := newGen(seed, number).attack()
		for i, s := range services {
			tag := fmt.Sprintf("c%07d", w.tags.Add(1))
			text := w.bytes(a, tag)
			byTag[tag] = sent{s, seed, number, a, text}
			jobs[i] <- job{s, text}
		}
	}
	for i := range jobs {
		close(jobs[i])
	}
	workers.Wait()
	return byTag
}

// judge reports the records that break a promise, some of them with a minimal attack.
func (w *world) judge(t *testing.T, all map[string]sent, got []*record, seen map[string]int) {
	t.Helper()
	arrived := time.Since(w.begun)
	for _, r := range got {
		for _, promise := range breaches(r) {
			if seen[promise] == 0 {
				t.Logf("%s: a request got past %s within %v", r.Server, promise, arrived)
			}
			seen[promise]++
			if seen[promise] > shown {
				t.Fail()
				continue
			}
			what, found := all[r.Case]
			if !found {
				t.Errorf("%s: a request got past %s, and it is not clear with which attack: %+v", r.Server, promise, *r)
				continue
			}
			smallest, again, answer := w.minimize(what.attack, what.to, promise)
			if smallest == nil {
				t.Errorf("%s: attack %d of %s=%d got past %s, but not again:\n%s%+v", what.to.name, what.number, seedEnv, what.seed, promise, quote(string(what.text)), *r)
				continue
			}
			t.Errorf("%s: attack %d of %s=%d gets past %s:\n%sSluice answered %q, and the service saw %+v", what.to.name, what.number, seedEnv, what.seed, promise, quote(smallest.String()), statuses(answer), *again)
		}
	}
}

// count reports keys for which the service ran more requests than their limit.
func (w *world) count(t *testing.T, all map[string]sent, got []*record) {
	t.Helper()
	first := map[string]*record{}
	for _, r := range got {
		for _, share := range shares(front(all, r), r) {
			before := first[share]
			if before == nil {
				first[share] = r
				continue
			}
			if strings.HasSuffix(share, `: ""`) || len(breaches(r)) > 0 {
				continue // judged already
			}
			t.Errorf("two requests count for %s:\n%s%+v\n%s%+v", share, quote(string(all[before.Case].text)), *before, quote(string(all[r.Case].text)), *r)
		}
	}
}

// TestAttacksReachWithoutSluice sends the same attacks to the services themselves: they run each
// protected handler, often in spite of an unusual request. So the other test means something when it succeeds.
func TestAttacksReachWithoutSluice(t *testing.T) {
	w := worldFor(t)
	if _, err := w.settle(); err != nil {
		t.Fatal(err)
	}
	services := slices.DeleteFunc(slices.Clone(w.services), func(s *protected) bool { return s.h2 })
	w.run(t, services, usualSeed, 0, unprotected, (*protected).direct)
	all, err := w.settle()
	if err != nil {
		t.Fatal(err)
	}
	reached := map[string]map[string]int{}
	for _, r := range all {
		for _, promise := range breaches(r) {
			if reached[promise] == nil {
				reached[promise] = map[string]int{}
			}
			reached[promise][r.Server]++
		}
	}
	for i := range protections {
		name := protections[i].name
		for _, s := range w.services {
			if reached[name][s.server] == 0 {
				t.Errorf("no attack on %s reaches %s", name, s.name)
			}
		}
		t.Logf("%s: %v", name, reached[name])
	}
	if !slices.ContainsFunc(all, func(r *record) bool {
		return slices.ContainsFunc(breaches(r), func(b string) bool { return b == "forwarding" })
	}) {
		t.Error("no forged address reaches a service")
	}
}
