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
	// Read bound what is read, and Write what is written. Default: no bound.
	Read, Write []Flow
}

// Conn is a net.Conn that moves bytes no faster than its flows let it. Its deadlines
// hold for the time that bytes wait, too; after one that has passed, and was set anew, it goes on. It
// is safe for concurrent use.
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

// Read is as that of a Reader.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	n, err := c.reader.Read(p)
	return n, c.closedError(err)
}

// Write is as that of a Writer.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.writer.Write(p)
	return n, c.closedError(err)
}

// ReadFrom is as that of a Writer.
func (c *Conn) ReadFrom(src io.Reader) (int64, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.writer.ReadFrom(src)
	return n, c.closedError(err)
}

// closedError puts the error of connections for that of meters.
func (c *Conn) closedError(err error) error {
	if err != nil && c.closed.Load() && (errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.Canceled)) {
		return net.ErrClosed
	}
	return err
}

// Close closes the connection, ends what waits, and gives back what was paid for and
// has not moved.
func (c *Conn) Close() error {
	c.closed.Store(true)
	err := c.Conn.Close()
	c.cancel()
	return errors.Join(err, c.reader.Close(), c.writer.Close())
}

// CloseWrite ends what is written, of connections that can do so alone. Others
// return errors.ErrUnsupported.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline sets the deadlines of reads and of writes.
func (c *Conn) SetDeadline(at time.Time) error {
	c.reader.meter.cut.set(at)
	c.writer.meter.cut.set(at)
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline sets that of reads, those that wait included.
func (c *Conn) SetReadDeadline(at time.Time) error {
	c.reader.meter.cut.set(at)
	return c.Conn.SetReadDeadline(at)
}

// SetWriteDeadline sets that of writes, those that wait included.
func (c *Conn) SetWriteDeadline(at time.Time) error {
	c.writer.meter.cut.set(at)
	return c.Conn.SetWriteDeadline(at)
}
