package bandwidth

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ConnOptions are the flows of a Conn.
type ConnOptions struct {
	// Read bounds what is read, and Write what is written. Default: no bound.
	Read, Write []Flow
}

// Conn is a net.Conn that moves bytes no faster than its flows let it. Its deadlines also
// bound the time that bytes wait. After a deadline has passed, a new deadline lets the
// connection go on. It is safe for concurrent use.
type Conn struct {
	net.Conn
	cancel context.CancelFunc
	closed atomic.Bool

	reading, writing sync.Mutex
	reader           Reader
	writer           Writer
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
)

// NewConn returns a connection over c. When ctx ends, reads and writes fail.
func NewConn(ctx context.Context, c net.Conn, o ConnOptions) *Conn {
	ctx, cancel := context.WithCancel(ctx)
	return &Conn{
		Conn: c, cancel: cancel,
		reader: Reader{c, newMeter(ctx, newDeadline(), o.Read)},
		writer: Writer{c, newMeter(ctx, newDeadline(), o.Write)},
	}
}

// Read reads as a Reader does. It returns net.ErrClosed after Close.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	n, err := c.reader.Read(p)
	return n, c.closedError(err)
}

// Write writes as a Writer does. It returns net.ErrClosed after Close.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.writer.Write(p)
	return n, c.closedError(err)
}

// ReadFrom writes as a Writer does. It returns net.ErrClosed after Close.
func (c *Conn) ReadFrom(src io.Reader) (int64, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.writer.ReadFrom(src)
	return n, c.closedError(err)
}

// closedError returns the error of a closed connection instead of a meter's error.
func (c *Conn) closedError(err error) error {
	if err != nil && c.closed.Load() && (errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.Canceled)) {
		return net.ErrClosed
	}
	return err
}

// Close closes the connection, ends reads and writes that wait, and gives back the prepaid
// bytes that have not moved. The error is the connection's, or the store's.
func (c *Conn) Close() error {
	c.closed.Store(true)
	err := c.Conn.Close()
	c.cancel()
	return errors.Join(err, c.reader.Close(), c.writer.Close())
}

// CloseWrite closes the writing side, if the wrapped connection can do so. Otherwise it
// returns errors.ErrUnsupported.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline sets the deadlines of reads and writes. The error is the connection's.
func (c *Conn) SetDeadline(at time.Time) error {
	c.reader.meter.cut.set(at)
	c.writer.meter.cut.set(at)
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline sets the deadline of reads, including a read that waits. The error is the connection's.
func (c *Conn) SetReadDeadline(at time.Time) error {
	c.reader.meter.cut.set(at)
	return c.Conn.SetReadDeadline(at)
}

// SetWriteDeadline sets the deadline of writes, including a write that waits. The error is the connection's.
func (c *Conn) SetWriteDeadline(at time.Time) error {
	c.writer.meter.cut.set(at)
	return c.Conn.SetWriteDeadline(at)
}

// deadline is the deadline of one direction of a Conn. It may change while a read or a write
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

// passed returns a channel that is closed when the deadline passes, even if the deadline moves
// before that.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}
