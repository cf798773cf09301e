package bandwidth

import (
	"sync"
	"time"
)

// deadline is that of one direction of a Conn, which may be changed while somebody
// waits.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
	done  chan struct{} // closed when it has passed
}

func newDeadline() *deadline { return &deadline{done: make(chan struct{})} }

// set changes the deadline; the zero time is none.
func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
	if d.timer != nil && !d.timer.Stop() {
		<-d.done // its function runs, or has run
	}
	d.timer = nil
	select {
	case <-d.done:
		d.done = make(chan struct{})
	default:
	}
	if at.IsZero() {
		return
	}
	done := d.done
	if left := time.Until(at); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(done) })
	} else {
		close(done)
	}
}

func (d *deadline) time() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// passed returns a channel that is closed when the deadline, as it is now or as it
// is moved forward to, has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}
