// Package accesslog writes a line for each decision, or for a sample of them. A decision never waits for the disk: lines
// are collected in memory, and lines for which there is no room are counted.
package accesslog

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Options configure a Log.
type Options struct {
	// Out gets whole lines, many at once. Required.
	Out io.Writer
	// Combined writes the combined format of web servers, with further fields at the end. Default: JSON.
	Combined bool
	// Sample is the part of the decisions that is logged, from 0 to 1. Required.
	Sample float64
	// Fingerprint returns a name for a key that does not reveal the key. Required.
	Fingerprint func(sluice.Key) string
	// ClientIP returns the address of a request's client; invalid if it is unknown. Required.
	ClientIP func(*http.Request) netip.Addr
	// Failed is called when lines cannot be written. Required.
	Failed func(error)
}

// Log is a log of decisions. Make it with New, and end it with Close. All methods are safe for concurrent use.
type Log struct {
	o    Options
	lost atomic.Uint64
	now  func() time.Time

	patience time.Duration // how long Close waits for the output

	mu      sync.Mutex
	pending []byte
	lines   uint64 // in pending
	closed  bool

	wake  chan struct{} // has a value if pending should be written soon
	end   chan struct{}
	ended chan struct{}
}

// The bounds of the lines that wait to be written.
const (
	mostPending = 1 << 20                // bytes
	soon        = 64 << 10               // bytes that are written at once
	latest      = 200 * time.Millisecond // after which fewer bytes are written too
)

// New returns a log that writes until it is closed.
func New(o Options) *Log {
	l := &Log{o: o, now: time.Now, patience: time.Second, wake: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{})}
	go l.run()
	return l
}

// Lost returns how many lines were not written: there was no room for them, or the write failed.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// Observe logs a decision, if it is in the sample. The request is nil at an edge that has no HTTP request. Observe keeps
// neither the request nor the verdict.
func (l *Log) Observe(edge string, r *http.Request, v *policy.Verdict, took time.Duration) {
	if l.o.Sample < 1 && rand.Float64() >= l.o.Sample {
		return
	}
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	x := logged{at: decidedAt(v, l.now().Add(-v.Waited), took), edge: edge, request: r, verdict: v, took: took}
	if r != nil {
		x.client = l.o.ClientIP(r)
	}
	if met := x.tightest(); met != nil {
		x.limit, x.cost, x.key = met.Request.Limit.Name(), met.Request.Cost, l.o.Fingerprint(met.Request.Key)
	}
	if l.o.Combined {
		*b = x.appendCombined((*b)[:0])
	} else {
		*b = x.appendJSON((*b)[:0])
	}
	l.add(*b)
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// add collects a line.
func (l *Log) add(line []byte) {
	l.mu.Lock()
	if l.closed || len(l.pending)+len(line) > mostPending {
		l.mu.Unlock()
		l.lost.Add(1)
		return
	}
	before := len(l.pending)
	l.pending = append(l.pending, line...)
	l.lines++
	full := before < soon && len(l.pending) >= soon
	l.mu.Unlock()
	if full {
		select {
		case l.wake <- struct{}{}:
		default: // it will be written
		}
	}
}

// run writes the collected lines.
func (l *Log) run() {
	defer close(l.ended)
	tick := time.NewTicker(latest)
	defer tick.Stop()
	var spare []byte
	for {
		last := false
		select {
		case <-l.wake:
		case <-tick.C:
		case <-l.end:
			last = true
		}
		l.mu.Lock()
		lines, text := l.lines, l.pending
		l.lines, l.pending = 0, spare[:0]
		l.mu.Unlock()
		if len(text) > 0 {
			if n, err := l.o.Out.Write(text); err != nil {
				if n < len(text) {
					l.lost.Add(lines)
				}
				l.o.Failed(err)
			}
		}
		spare = text
		if last {
			return
		}
	}
}

// Close writes the collected lines. The log ignores later decisions. It reports whether the output took the lines
// within a second. If the reader of a pipe has stopped, the write may never end.
func (l *Log) Close() bool {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if !again {
		close(l.end)
	}
	limit := time.NewTimer(l.patience)
	defer limit.Stop()
	select {
	case <-l.ended:
		return true
	case <-limit.C:
		return false
	}
}
