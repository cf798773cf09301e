package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// answer is the ResponseWriter that an upstream's answer is written to. It keeps
// what was put into the header before (by who limits the rate) out of interim
// answers and in the final one, and it bounds how long a client may leave
// a piece unread.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	// upstream is the header under construction, until it is written.
	upstream http.Header
	written  bool
}

func newAnswer(w http.ResponseWriter, stall time.Duration) *answer {
	a := &answer{
		ResponseWriter: w,
		control:        http.NewResponseController(w),
		stall:          stall,
		upstream:       http.Header{},
	}
	// The server's own limits are for answers that are made here; the upstream may
	// take the time that it is given.
	_ = a.control.SetWriteDeadline(time.Time{})
	// A service may answer while the body of its request still comes. Over HTTP/1 the
	// server would otherwise read on, and throw away what is the service's.
	_ = a.control.EnableFullDuplex()
	return a
}

// Unwrap lets http.ResponseController find what w can do.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Header returns the upstream's part of the header, and the whole of it once it
// is written: trailers are put there.
func (a *answer) Header() http.Header {
	if a.written {
		return a.ResponseWriter.Header()
	}
	return a.upstream
}

// WriteHeader writes an interim answer, or the header of the final one.
func (a *answer) WriteHeader(status int) {
	h := a.ResponseWriter.Header()
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		ours := maps.Clone(h)
		clear(h)
		maps.Copy(h, a.upstream)
		a.ResponseWriter.WriteHeader(status)
		clear(h)
		maps.Copy(h, ours)
		return
	}
	a.merge()
	a.ResponseWriter.WriteHeader(status)
}

// merge adds the upstream's header to ours.
func (a *answer) merge() {
	if a.written {
		return
	}
	a.written = true
	h := a.ResponseWriter.Header()
	for name, values := range a.upstream {
		h[name] = append(h[name], values...)
	}
}

// Write writes a piece of the body.
func (a *answer) Write(piece []byte) (int, error) {
	if !a.written {
		a.WriteHeader(http.StatusOK)
	}
	defer a.deadline()()
	return a.ResponseWriter.Write(piece)
}

// FlushError sends what was written.
func (a *answer) FlushError() error {
	defer a.deadline()()
	return a.control.Flush()
}

// Hijack hands the connection over, for an upgrade.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := a.control.Hijack()
	if err == nil {
		a.merge()
	}
	return conn, buffers, err
}

// deadline bounds what is written until the function it returns is called.
// Writers that know no deadlines, in tests, are left alone.
func (a *answer) deadline() func() {
	if a.control.SetWriteDeadline(time.Now().Add(a.stall)) != nil {
		return func() {}
	}
	return func() { _ = a.control.SetWriteDeadline(time.Time{}) }
}

// done bounds what the server does by itself after the handler: it writes the end
// of the answer, and reads what is left of the request. The next request on the connection gets
// limits of its own.
func (a *answer) done() {
	end := time.Now().Add(a.stall)
	_ = a.control.SetWriteDeadline(end)
	_ = a.control.SetReadDeadline(end)
}

// patientBody is a request's body that must keep coming.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
	stalled atomic.Bool
}

// bodyKey is that of a request's body in its context: when a read from the
// client fails, the server ends the context, and that is all the transport reports.
type bodyKey struct{}

// stalled reports whether the body of the request with this context stood still.
func stalled(ctx context.Context) bool {
	b, ok := ctx.Value(bodyKey{}).(*patientBody)
	return ok && b.stalled.Load()
}

// Read reads a piece of the body.
func (b *patientBody) Read(piece []byte) (int, error) {
	limited := b.control.SetReadDeadline(time.Now().Add(b.stall)) == nil
	n, err := b.ReadCloser.Read(piece)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.stalled.Store(true)
		return n, errBodyStalled // and nobody waits for the rest
	}
	if limited {
		// The connection may rest while the piece is passed on.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
