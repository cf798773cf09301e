package proxy

import (
	"context"
	"errors"
	"io"
	"net"
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
		defer func() {
			control, stall, now := http.NewResponseController(w), stall, time.Now()
			_ = control.SetWriteDeadline(now.Add(stall))
			if r.ContentLength == 0 && r.ProtoMajor == 1 {
				return // nothing is left to read
			}
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
	if b, ok := r.Body.(interface{ Ended() bool }); ok && b.Ended() {
		return // a rule has read it, and the server already waits for the client to leave: a deadline would end the connection
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(past) != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, r.Body, enough); !errors.Is(err, io.EOF) {
		w.Header().Set("Connection", "close")
	}
}

// patientBody is a request's body that must keep coming. Its reader may outlast the handler for a moment.
type patientBody struct {
	io.ReadCloser
	until   deadline
	pace    pace
	timeout time.Duration // zero for none
	waited  time.Duration // for the client, in all
	http1   bool
	atEnd   func() // is called before the end is reported

	stalled   atomic.Bool
	malformed atomic.Bool
	broken    atomic.Bool
	ended     atomic.Bool
	closed    atomic.Bool
	answered  atomic.Bool // the upstream answers meanwhile
}

// isWhole reports whether the body was read to its end.
func (b *patientBody) isWhole() bool { return b == nil || b.ended.Load() }

// isMalformed reports whether the client sent something that is not a body.
func (b *patientBody) isMalformed() bool { return b != nil && b.malformed.Load() }

// broke reports whether the connection to the client ended within the body.
func (b *patientBody) broke() bool { return b != nil && b.broken.Load() }

// bodyKey is the key of a request's body in its context. When a read from the client fails, the
// server ends the context, and the transport reports only the end of the context.
type bodyKey struct{}

// bodyOf returns the body of the request with this context, nil if it has none.
func bodyOf(ctx context.Context) *patientBody {
	b, _ := ctx.Value(bodyKey{}).(*patientBody)
	return b
}

// stalled reports whether the body of the request with this context has stalled.
func stalled(ctx context.Context) bool {
	b := bodyOf(ctx)
	return b != nil && b.stalled.Load()
}

// Read reads a piece of the body.
func (b *patientBody) Read(piece []byte) (int, error) {
	switch {
	case b.ended.Load():
		return 0, io.EOF // the transport reads beyond the end, and the server may have closed the body since
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	}
	// A service that answers already converses with its client, at a pace of their own.
	paced := !b.answered.Load()
	began := time.Now()
	most := b.pace.stall
	if paced {
		most = b.pace.next()
	}
	if b.timeout > 0 {
		most = min(most, max(soon, b.timeout-b.waited))
	}
	b.until.begin(began, most)
	n, err := b.ReadCloser.Read(piece)
	took := time.Since(began)
	b.waited += took
	if paced {
		b.pace.moved(n, took)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if !b.ended.Swap(true) {
			b.atEnd()
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.stalled.Store(true)
		return n, errBodyStalled // and nobody waits for the rest
	default:
		b.fail(err)
	}
	if err != nil {
		b.until.remove()
	} else {
		b.until.end() // the deadline is only for the client, not for passing the piece on
	}
	return n, err
}

// Close ends the reads of the transport, which may outlast the handler. The server closes the body itself.
func (b *patientBody) Close() error {
	b.closed.Store(true)
	return nil
}

// fail records why the body cannot be read. Over HTTP/2 a malformed body ends its stream, as a client does that
// leaves.
func (b *patientBody) fail(err error) {
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, http.ErrBodyReadAfterClose):
	case !b.http1, errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network), errors.Is(err, net.ErrClosed):
		b.broken.Store(true)
	default:
		b.malformed.Store(true)
	}
}

// soon is the shortest time for which a client is waited for, so that what it has sent is received.
const soon = time.Millisecond

// pace is the time that a client has to send or receive the next piece. What it moves lengthens the time at
// the least rate, up to what a piece may take.
type pace struct {
	stall time.Duration // for a piece
	rate  int64         // bytes a second; zero for no least rate
	left  time.Duration
}

// pace returns the pace for a body or an answer.
func (p *Proxy) pace() pace {
	return pace{stall: p.o.Stall, rate: p.o.MinRate, left: min(p.o.Grace, p.o.Stall)}
}

// next returns how long the next piece may take.
func (p *pace) next() time.Duration {
	if p.rate <= 0 {
		return p.stall
	}
	return max(soon, p.left)
}

// moved reports that n bytes took a time.
func (p *pace) moved(n int, took time.Duration) {
	if p.rate <= 0 {
		return
	}
	p.left = min(p.left-took+time.Duration(int64(n)*int64(time.Second)/p.rate), p.stall) // a piece has no gigabytes
}
