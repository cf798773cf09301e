package logfile

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// Queue writes lines to an output, in the order in which it got them. No caller waits longer than it chooses, even if
// the output hangs, such as a disk, or a pipe whose reader has stopped. Lines that cannot be written stay in the queue
// and are tried again. Make a Queue with NewQueue, and end it with Close. All methods are safe for concurrent use.
type Queue struct {
	out    io.Writer
	failed func(error)

	mu     sync.Mutex
	lines  []queued // oldest first
	bytes  int
	lost   uint64
	closed bool

	wake  chan struct{} // has a value if there are new lines
	end   chan struct{}
	ended chan struct{}
}

// queued is a line that is not written yet.
type queued struct {
	text    []byte
	outcome chan error // of the next attempt to write it; nil if nobody waits
}

// The errors of Queue.Write.
var (
	// ErrSlow means that a line was not written within the time of the caller. It stays in the queue.
	ErrSlow = errors.New("it took nothing within the time")
	// ErrFull means that there is no room for a line, because earlier ones are not written.
	ErrFull = errors.New("it takes nothing, and too many lines wait")
)

const (
	mostQueued = 1 << 20     // bytes
	retry      = time.Second // after which lines are tried again, if no line comes earlier
)

// NewQueue returns a queue in front of an output, which gets whole lines, many at once. The function failed is called
// with each failed attempt to write.
func NewQueue(out io.Writer, failed func(error)) *Queue {
	q := &Queue{out: out, failed: failed, wake: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{})}
	go q.run()
	return q
}

// Put adds a line, without waiting. It counts the line as lost if there is no room.
func (q *Queue) Put(line []byte) { q.put(queued{text: line}) }

// Write adds a line, and returns when the line is written, or why it is not. After an error other than ErrFull, the
// line stays in the queue.
func (q *Queue) Write(line []byte, wait time.Duration) error {
	l := queued{text: line, outcome: make(chan error, 1)}
	if !q.put(l) {
		return ErrFull
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case err := <-l.outcome:
		return err
	case <-limit.C:
		return ErrSlow
	}
}

func (q *Queue) put(l queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.bytes+len(l.text) > mostQueued {
		q.lost++
		return false
	}
	q.lines = append(q.lines, l)
	q.bytes += len(l.text)
	select {
	case q.wake <- struct{}{}:
	default: // it will be written
	}
	return true
}

// Waiting returns how many lines are not written yet.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines)
}

// Lost returns how many lines will never be written, because there was no room for them.
func (q *Queue) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

func (q *Queue) run() {
	defer close(q.ended)
	again := time.NewTimer(retry)
	defer again.Stop()
	for {
		last := false
		select {
		case <-q.wake:
		case <-again.C:
		case <-q.end:
			last = true
		}
		q.write()
		if last {
			return
		}
		again.Reset(retry)
	}
}

// write makes one attempt to write the queue.
func (q *Queue) write() {
	q.mu.Lock()
	n := len(q.lines)
	var text bytes.Buffer
	for i := range q.lines {
		text.Write(q.lines[i].text)
	}
	q.mu.Unlock()
	if n == 0 {
		return
	}
	written, err := q.out.Write(text.Bytes())
	if err != nil {
		q.failed(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	whole := 0 // lines that were written to their end
	for i := range q.lines[:n] {
		l := &q.lines[i]
		if written -= len(l.text); written >= 0 {
			whole++
			q.bytes -= len(l.text)
		}
		if l.outcome != nil {
			l.outcome <- err
			l.outcome = nil
		}
	}
	clear(q.lines[:whole])
	q.lines = q.lines[whole:]
}

// Close makes a last attempt to write the queue. It reports whether the attempt ended within the time, with success or
// an error. Otherwise a write is still in progress, and may never end.
func (q *Queue) Close(wait time.Duration) bool {
	q.mu.Lock()
	again := q.closed
	q.closed = true
	q.mu.Unlock()
	if !again {
		close(q.end)
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-q.ended:
		return true
	case <-limit.C:
		return false
	}
}
