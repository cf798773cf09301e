package forwardauth

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// watched is the context of a request. It ends when the gateway closes the connection. It watches the connection only
// from the first call of Done, which only waiting requests make, so other requests need no goroutine.
type watched struct {
	context.Context //nolint:containedctx // it is one
	conn            *conn

	mu     sync.Mutex
	done   chan struct{} // nil until the first call of Done
	halted chan struct{} // closed when the watcher has returned
	err    error         // why the context has ended
	gone   bool          // the gateway is
	stop   func() bool
}

// Done begins to watch.
func (w *watched) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == nil {
		w.done, w.halted = make(chan struct{}), make(chan struct{})
		w.conn.until(time.Time{})
		go w.watch()
		w.stop = context.AfterFunc(w.Context, func() { w.cancel(w.Context.Err(), false) })
	}
	return w.done
}

// watch waits for the next request, or for the end of the connection.
func (w *watched) watch() {
	defer close(w.halted)
	w.conn.from.N = max(w.conn.from.N, 1)
	_, err := w.conn.in.Peek(1)
	var late net.Error
	if err == nil || errors.As(err, &late) && late.Timeout() {
		return
	}
	w.cancel(context.Canceled, true)
}

// cancel ends the context, once.
func (w *watched) cancel(err error, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err, w.gone = err, gone
		close(w.done)
	}
}

// Err returns why the context has ended.
func (w *watched) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return w.Context.Err()
}

// end ends the context and its watcher. It reports whether the gateway is gone.
func (w *watched) end() (gone bool) {
	w.mu.Lock()
	watching := w.done != nil
	w.mu.Unlock()
	if !watching {
		return false
	}
	w.stop()
	_ = w.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the watcher
	<-w.halted
	w.conn.rearm()
	w.cancel(context.Canceled, false)
	return w.gone
}
