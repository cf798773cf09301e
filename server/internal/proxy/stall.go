package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Bounded bounds what a server does by itself after next has returned. The server writes the end of
// the answer, and reads what is left of the request; each may take up to stall. Use Bounded around
// every handler that answers instead of a proxy, such as the middleware.
func Bounded(next http.Handler, stall time.Duration) http.Handler {
	if stall == 0 {
		stall = DefaultStall
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Writers without deadlines, in tests, are left alone.
		control, stall := http.NewResponseController(w), stall
		defer func() {
			now := time.Now()
			_ = control.SetWriteDeadline(now.Add(stall))
			if w.Header().Get("Connection") == "close" {
				// The server still reads for a moment, so that the client gets the answer
				// before the connection ends.
				stall = min(stall, time.Second)
			}
			_ = control.SetReadDeadline(now.Add(stall))
		}()
		next.ServeHTTP(w, r)
	})
}

// past is a deadline that has passed. Under it, a read returns only bytes that have arrived
// already.
var past = time.Unix(1, 0)

// enough bounds how much of an unwanted body is read, in bytes.
const enough = 64 << 10

// Refuse prepares to answer a request that is not passed on. It discards the part of the body
// that has arrived. If that is not the whole body, the connection ends with the answer, because
// it can serve no other request.
func Refuse(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.ProtoMajor != 1 || r.Header.Get("Expect") != "" {
		return // the server handles such a body
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(past) != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, r.Body, enough); !errors.Is(err, io.EOF) {
		w.Header().Set("Connection", "close")
	}
}

// patientBody is a request's body that must keep coming.
type patientBody struct {
	io.ReadCloser
	control *readControl
	stall   time.Duration
	stalled atomic.Bool
	ended   atomic.Bool
	atEnd   func() // is called before the end is reported
}

// whole reports whether the body was read to its end.
func (b *patientBody) whole() bool { return b == nil || b.ended.Load() }

// bodyKey is the key of a request's body in its context. When a read from the client fails, the
// server ends the context, and the transport reports only the end of the context.
type bodyKey struct{}

// stalled reports whether the body of the request with this context has stalled.
func stalled(ctx context.Context) bool {
	b, ok := ctx.Value(bodyKey{}).(*patientBody)
	return ok && b.stalled.Load()
}

// Read reads a piece of the body.
func (b *patientBody) Read(piece []byte) (int, error) {
	limited := b.control.SetReadDeadline(time.Now().Add(b.stall)) == nil
	n, err := b.ReadCloser.Read(piece)
	if errors.Is(err, io.EOF) && !b.ended.Swap(true) {
		b.atEnd()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.stalled.Store(true)
		return n, errBodyStalled // and nobody waits for the rest
	}
	if limited {
		// The deadline is only for the client, not for passing the piece on.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
