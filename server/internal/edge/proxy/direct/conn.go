package direct

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
	"github.com/sluicehq/sluice/server/internal/listen/web"
)

// conn is a connection that this package keeps. It carries one request at a time, in the goroutine of the
// request's handler.
type conn struct {
	conn   *upstream.Conn
	origin *origin
	since  time.Time // when it was kept
	reused bool      // it has carried a request

	// These belong to the request that the connection carries.
	ctx      context.Context //nolint:containedctx // of the request
	in       *bufio.Reader
	heading  bool            // the final head of the answer has not arrived
	answerBy time.Time       // by then it must have arrived; zero for no bound
	left     int64           // how many bytes of a head are accepted
	got      bool            // something of the answer has arrived
	scans    bool            // lengths counts what arrives
	lengths  web.LengthCount // lines of the head that look like a Content-Length
	failed   error           // why reads ended: the parsers of package http may report something else
	stop     func() bool

	sending struct {
		bytes []byte
		n     int
		err   error
		stale bool
		peek  [1]byte
	}
	send1 func(fd uintptr) bool // conn.sendOnce, made once

	mu        sync.Mutex
	until     time.Time // the deadline for reads; zero for none
	cancelled bool      // the deadline has passed for good
}

// watchAfter is when the context of a request begins to be watched, at the earliest. Most answers come before, and
// watching costs more than the deadline, which serves many requests. It is at most twice that.
const watchAfter = 50 * time.Millisecond

// Errors of the direct path.
var (
	errStale      = errors.New("proxy: the connection has ended, or the upstream has sent something unrequested")
	errAnswerHead = errors.New("proxy: the head of the upstream's answer is too long")
)

// readers are the buffers of connections that carry requests. They have the size of http.Transport's.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

func newConn(o *origin, c net.Conn) *conn {
	d := &conn{conn: upstream.New(c, nil), origin: o}
	d.send1 = d.sendOnce
	return d
}

// close closes the connection, so that another one may be made.
func (d *conn) close() {
	_ = d.conn.Close() // nobody needs it any more
	d.origin.release()
}

// isStale reports whether something has arrived, or the connection has ended.
func (d *conn) isStale() bool {
	if d.conn.Raw == nil {
		return true // nobody can know
	}
	stale := true
	var peek [1]byte
	err := d.conn.Raw.Control(func(fd uintptr) { stale = !isQuiet(fd, peek[:]) })
	return stale || err != nil
}

// begin sends the head of a request. If it returns errStale, nothing was sent.
func (d *conn) begin(ctx context.Context, r *Request, now time.Time) error {
	d.ctx, d.got, d.heading, d.left, d.scans, d.failed = ctx, false, true, upstream.MaxHead, false, nil
	s := &d.sending
	s.bytes, s.n, s.err, s.stale = r.Head, 0, nil, false
	if d.conn.Raw == nil {
		s.stale = true
		return errStale
	}
	err := d.conn.Raw.Write(d.send1)
	s.bytes = nil
	switch {
	case err != nil:
		return err
	case s.stale:
		return errStale
	case s.err != nil:
		return s.err
	}
	if s.n < len(r.Head) {
		d.watch()
		n, err := d.conn.Conn.Write(r.Head[s.n:])
		s.n += n
		if err != nil {
			if d.ctx.Err() != nil {
				return context.Cause(d.ctx)
			}
			return err
		}
		now = time.Now()
	}
	d.in = readers.Get().(*bufio.Reader)
	d.in.Reset(d)
	if r.Steps.Outlasts() {
		d.watch() // requests that outlast their clients are bounded at once
	}
	d.await(now)
	return nil
}

// await sets the deadlines for an answer to a request that has been sent.
func (d *conn) await(now time.Time) {
	limit := d.origin.all.o.Answer
	d.answerBy = time.Time{}
	if limit > 0 {
		d.answerBy = now.Add(limit)
	}
	switch left := d.until.Sub(now); {
	case d.stop != nil:
		d.setDeadline(d.answerBy)
	case limit > 0 && limit < 2*watchAfter:
		d.setDeadline(d.answerBy)
	case left < watchAfter || left > 2*watchAfter:
		d.setDeadline(now.Add(2 * watchAfter))
	}
}

// setDeadline sets the deadline for reads, unless the request was cancelled.
func (d *conn) setDeadline(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancelled {
		return
	}
	d.until = at
	_ = d.conn.SetReadDeadline(at) // it fails if the connection is closed, and then reads fail too
}

// watch ends the request when its context ends.
func (d *conn) watch() {
	if d.stop == nil {
		d.stop = context.AfterFunc(d.ctx, d.cancel)
	}
}

// cancel ends all reads and writes.
func (d *conn) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancelled = true
	_ = d.conn.SetDeadline(time.Unix(1, 0)) // it fails if the connection is closed
}

// overdue is called when the deadline for reads has passed. Nil means that the read may go on, under another one.
func (d *conn) overdue() error {
	if d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	if d.heading && !d.answerBy.IsZero() && !time.Now().Before(d.answerBy) {
		return os.ErrDeadlineExceeded
	}
	d.watch()
	if d.heading {
		d.setDeadline(d.answerBy)
	} else {
		d.setDeadline(time.Time{})
	}
	return nil
}

// Read reads what the upstream sends.
func (d *conn) Read(p []byte) (int, error) {
	if d.heading {
		if d.left <= 0 {
			d.failed = errAnswerHead
			return 0, d.failed
		}
		p = p[:min(int64(len(p)), d.left)]
	}
	for {
		n, err := d.conn.Read(p)
		if n > 0 {
			d.got = true
			if d.heading {
				d.left -= int64(n)
				if d.scans {
					d.lengths.Scan(p[:n])
				}
			}
		}
		if err == nil || d.conn.Lost || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if d.failed = d.overdue(); d.failed != nil {
			return n, d.failed
		}
	}
}

// awaitAnswer waits until something of the answer has arrived.
func (d *conn) awaitAnswer() error {
	_, err := d.in.Peek(1)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// answer reads an answer that is not plain, up to its body.
func (d *conn) answer(r *Request) (*http.Response, error) {
	arrived, _ := d.in.Peek(d.in.Buffered()) // it is there
	d.scans, d.lengths = true, web.LengthCount{}
	d.lengths.Scan(arrived)
	for {
		res, err := http.ReadResponse(d.in, r.Request)
		if err != nil {
			return nil, cmp.Or(d.failed, err)
		}
		if res.StatusCode/100 != 1 || res.StatusCode == http.StatusSwitchingProtocols {
			d.arrived()
			keep := !res.Close && res.StatusCode >= 200 && !d.isAmbiguous(res)
			if res.Body == http.NoBody {
				d.release(keep)
			} else {
				res.Body = &body{conn: d, from: res.Body, keep: keep}
			}
			return res, nil
		}
		if err := r.Steps.Interim(res.StatusCode, res.Header); err != nil {
			return nil, err
		}
		d.left = upstream.MaxHead
	}
}

// isAmbiguous reports whether the upstream may take another byte than this package for the end of an answer.
func (d *conn) isAmbiguous(res *http.Response) bool {
	chunked := len(res.TransferEncoding) > 0
	switch {
	case chunked && d.lengths.Count() > 0:
		return true // package http goes by the chunks, and drops the length
	case res.StatusCode == http.StatusNoContent:
		length := res.Header["Content-Length"]
		return chunked || len(length) > 0 && length[0] != "0"
	case res.StatusCode == http.StatusNotModified:
		return chunked
	}
	return false
}

// arrived notes that the final head has arrived.
func (d *conn) arrived() {
	d.heading = false
	if d.stop != nil {
		d.setDeadline(time.Time{})
	}
}

// release ends the use by a request. The connection is kept if it can carry another one, and nothing else has arrived.
func (d *conn) release(keep bool) {
	if clean := d.forget(); !keep || !clean {
		d.close()
		return
	}
	d.reused = true
	d.origin.keep(d)
}

// forget drops what belongs to the request. It reports whether nothing else has arrived, and whether no deadline of the
// request will pass later.
func (d *conn) forget() (clean bool) {
	clean = true
	if d.in != nil {
		clean = d.in.Buffered() == 0
		d.in.Reset(nil)
		readers.Put(d.in)
		d.in = nil
	}
	if d.stop != nil {
		clean = d.stop() && clean
		d.stop = nil
	}
	d.ctx = nil
	d.conn.Release(nil)
	return clean
}

// body is the body of an answer. Its end ends the use of the connection. It is not safe for concurrent use.
type body struct {
	conn *conn     // nil after the end
	from io.Reader // reads from the connection's buffer, which others use after the end
	keep bool
	err  error
}

// Read reads a piece.
func (b *body) Read(p []byte) (int, error) {
	if b.conn == nil {
		return 0, b.err
	}
	n, err := b.from.Read(p)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = cmp.Or(b.conn.failed, err)
		}
		b.end(err)
	}
	return n, err
}

// Close gives the rest of the answer up.
func (b *body) Close() error {
	if b.conn != nil {
		b.end(http.ErrBodyReadAfterClose)
	}
	return nil
}

func (b *body) end(err error) {
	d := b.conn
	b.conn, b.from, b.err = nil, nil, err
	d.release(b.keep && errors.Is(err, io.EOF))
}
