package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// specEnv holds the Spec of a process that Start has started.
const specEnv = "SLUICE_FLEET"

// Main runs the process if Start has started it, and then never returns. Otherwise it returns at once.
func Main() { MainWith(nil) }

// MainWith is Main of a program that has other subjects, by name.
func MainWith(others map[string]New) {
	text := os.Getenv(specEnv)
	if text == "" {
		return
	}
	if err := runWorker(text, others); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker is a process of the fleet.
type worker struct {
	Spec
	clock   Clock
	subject Subject
	ledger  *Ledger
	loads   []workerLoad
	stop    chan struct{}
	running sync.WaitGroup

	decided, errors atomic.Int64
	failed          atomic.Pointer[error] // the first error
}

type workerLoad struct {
	demand  atomic.Uint64 // the bits of requests per second
	allowed atomic.Int64
	_       [6]uint64
}

func runWorker(text string, others map[string]New) error {
	w := &worker{stop: make(chan struct{})}
	if err := json.Unmarshal([]byte(text), &w.Spec); err != nil {
		return err
	}
	w.complete()
	var err error
	if w.clock, err = NewClock(); err != nil {
		return err
	}
	if w.Ledger != "" {
		if w.ledger, err = NewLedger(w.Ledger); err != nil {
			return err
		}
	}
	if w.subject, err = newSubject(&w.Spec, others); err != nil {
		return err
	}
	w.loads = make([]workerLoad, len(w.Loads))
	w.demand(nil)
	if w.paced() {
		pace := w.pace
		if w.Poisson {
			pace = w.poisson
		}
		for i := range w.loads {
			w.running.Go(func() { pace(i) })
		}
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(Stats{}); err != nil { // the process is ready
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			return err
		}
		s, err := w.obey(c)
		if err == nil {
			err = out.Encode(s)
		}
		if err != nil {
			return err
		}
	}
	close(w.stop)
	w.running.Wait()
	return w.subject.Close()
}

// paced reports whether the loads send requests by themselves.
func (w *worker) paced() bool {
	for _, l := range w.Loads {
		if l.PerSecond > 0 {
			return true
		}
	}
	return w.Ledger != ""
}

// demand sets the demand of each load.
func (w *worker) demand(perSecond []float64) {
	for i := range w.loads {
		v := w.Loads[i].PerSecond
		if perSecond != nil {
			v = perSecond[i]
		}
		w.loads[i].demand.Store(math.Float64bits(v))
	}
}

// obey carries out a command.
func (w *worker) obey(c command) (Stats, error) {
	if c.Demand != nil {
		w.demand(c.Demand)
	}
	if c.Drain {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.subject.Drain(ctx); err != nil {
			return Stats{}, fmt.Errorf("cannot drain: %w", err)
		}
	}
	if c.Race != nil {
		return w.race(*c.Race), nil
	}
	s := Stats{Decided: w.decided.Load(), Errors: w.errors.Load()}
	for i := range w.loads {
		s.ByLoad = append(s.ByLoad, w.loads[i].allowed.Load())
		s.Allowed += s.ByLoad[i]
	}
	if err := w.failed.Load(); err != nil {
		s.FirstError = (*err).Error()
	}
	if w.ledger != nil {
		s.Lost = w.ledger.Lost()
	}
	w.subject.Stats(&s)
	return s, nil
}

// pace sends the requests of a load at its demand, with a little chance.
func (w *worker) pace(load int) {
	chance := rand.New(rand.NewPCG(w.Seed, uint64(load)))
	first := time.Duration(chance.Int64N(int64(w.Tick)))
	tick := time.NewTimer(first)
	defer tick.Stop()
	due, last := 0.0, w.clock.Now()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		tick.Reset(w.Tick)
		now := w.clock.Now()
		// After a pause, what was due meanwhile is not sent.
		passed := min(time.Duration(now-last), max(100*time.Millisecond, 2*w.Tick))
		last = now
		due += math.Float64frombits(w.loads[load].demand.Load()) * passed.Seconds() * (0.5 + chance.Float64())
		for ; due >= 1; due-- {
			w.request(load)
		}
	}
}

// poisson sends the requests of a load as independent clients do.
func (w *worker) poisson(load int) {
	const look = 10 * time.Millisecond // how often it looks at its demand
	chance := rand.New(rand.NewPCG(w.Seed, uint64(load)))
	tick := time.NewTimer(0)
	defer tick.Stop()
	left := chance.ExpFloat64() // requests until the next one, on average
	for last := w.clock.Now(); ; {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		perSecond := math.Float64frombits(w.loads[load].demand.Load())
		now := w.clock.Now()
		// After a pause, what was due meanwhile is not sent.
		left -= perSecond * min(time.Duration(now-last), 100*time.Millisecond).Seconds()
		last = now
		for ; left <= 0; left += chance.ExpFloat64() {
			w.running.Go(func() { w.request(load) }) // requests do not wait for each other
		}
		pause := look
		if perSecond > 0 {
			pause = min(pause, time.Duration(left/perSecond*float64(time.Second)))
		}
		tick.Reset(pause)
	}
}

// request decides one request.
func (w *worker) request(load int) {
	ctx, cancel := context.WithTimeout(context.Background(), w.Deadline)
	defer cancel()
	from := w.clock.Now()
	allowed, err := w.subject.Take(ctx, load)
	to := w.clock.Now()
	w.decided.Add(1)
	switch {
	case err != nil:
		if w.errors.Add(1) == 1 {
			w.failed.Store(&err)
		}
	case allowed:
		w.loads[load].allowed.Add(1)
		w.write(Spend{from, to, 1, load})
	default:
		w.write(Spend{from, to, 0, load})
	}
}

func (w *worker) write(s Spend) {
	if w.ledger != nil {
		w.ledger.Write(s)
	}
}

var errEnded = errors.New("fleet: the process has ended")
