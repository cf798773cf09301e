package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// The direct path carries plain requests without a body to upstreams over plain HTTP/1.1. It does everything in the
// goroutine of the handler: it writes the request, reads the answer, and keeps the connection. http.Transport carries
// the other requests.

// heads are buffers for the heads of requests.
var heads = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// mostHead is the size of the longest head that the direct path writes. It fits into the send buffer of a connection.
const mostHead = 16 << 10

// isDirect reports whether the direct path may carry a request.
func (t *Transport) isDirect(r *http.Request) bool {
	h := r.Header
	return t.direct && r.URL.Scheme == "http" && r.Body == nil && r.ContentLength == 0 && !r.Close &&
		len(r.TransferEncoding) == 0 && r.Trailer == nil && r.Method != http.MethodConnect &&
		h["Upgrade"] == nil && h["Expect"] == nil && h["Connection"] == nil
}

// carryDirect sends one request on the direct path, as carry does. It returns false, and has done nothing, if it cannot
// write the request.
func (t *Transport) carryDirect(r *http.Request, to interims) (*http.Response, *upstreamConn, bool, error) {
	address, ok := addressOf(r.URL)
	if !ok {
		return nil, nil, false, nil
	}
	buffer := heads.Get().(*[]byte)
	defer heads.Put(buffer)
	head, ok := appendHead((*buffer)[:0], r)
	if !ok || len(head) > mostHead {
		return nil, nil, false, nil
	}
	*buffer = head
	arrived, err := t.exchange(r.Context(), r, address, head, to, false)
	return arrived.res, arrived.conn, true, err
}

// arrival is an answer up to its body, and its connection.
type arrival struct {
	res   *http.Response // nil for a plain answer
	plain *plainAnswer
	conn  *upstreamConn
}

// exchange gets a connection, sends the head of a request, and reads the answer up to its body. It repeats the request once if a
// kept connection has ended without a byte of an answer. A plain answer is returned as one if the caller takes it.
func (t *Transport) exchange(ctx context.Context, r *http.Request, address string, head []byte, to interims, plain bool) (arrival, error) {
	now := time.Now()
	passage := passageOf(ctx)
	d, err := t.connections.take(ctx, address, now)
	for err == nil {
		passage.forward()
		err = d.begin(ctx, head, now)
		var res *http.Response
		if err == nil {
			err = d.awaitAnswer()
		}
		if err == nil && plain {
			if p := d.plainAnswer(r.Method); p != nil {
				return arrival{plain: p, conn: d.conn}, nil
			}
		}
		if err == nil {
			res, err = d.answer(r, to) //nolint:bodyclose // the caller of exchange closes it
		}
		if err == nil {
			conn := d.conn // d may be kept
			d.deliver(res)
			return arrival{res: res, conn: conn}, nil
		}
		stale, reused, repeat := errors.Is(err, errStale), d.reused, d.repeats(r, err)
		switch {
		case stale && reused:
			passage.withdraw()
			d.end(false)
			d, err = t.connections.take(ctx, address, now)
		case repeat:
			now = time.Now()
			origin := d.origin
			d.release()
			d.hangUp()
			d, err = origin.connect(ctx, now) // instead of it
		default:
			d.end(false)
			return arrival{}, err
		}
	}
	return arrival{}, err
}

// repeats reports whether a request may be sent once more, after it failed. The upstream may have closed the
// connection when the request was on its way.
func (d *directConn) repeats(r *http.Request, err error) bool {
	if !d.reused || d.got || d.ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if d.sending.n == 0 {
		return true
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// deliver prepares the body of an answer, which ends the use of the connection.
func (d *directConn) deliver(res *http.Response) {
	keep := !res.Close && res.StatusCode >= 200 && !d.isAmbiguous(res)
	if res.Body == http.NoBody {
		d.end(keep)
		return
	}
	res.Body = &directBody{conn: d, body: res.Body, keep: keep}
}

// isAmbiguous reports whether the upstream may take another byte than this package for the end of an answer.
func (d *directConn) isAmbiguous(res *http.Response) bool {
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

// directBody is the body of an answer on the direct path. Its end ends the use of the connection. It is not safe for
// concurrent use.
type directBody struct {
	conn *directConn // nil after the end
	body io.Reader   // reads from the connection's buffer, which others use after the end
	keep bool
	err  error
}

// Read reads a piece.
func (b *directBody) Read(p []byte) (int, error) {
	if b.conn == nil {
		return 0, b.err
	}
	n, err := b.body.Read(p)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = cmp.Or(b.conn.failed, err)
		}
		b.end(err)
	}
	return n, err
}

// Close gives the rest of the answer up.
func (b *directBody) Close() error {
	if b.conn != nil {
		b.end(http.ErrBodyReadAfterClose)
	}
	return nil
}

func (b *directBody) end(err error) {
	d := b.conn
	b.conn, b.body, b.err = nil, nil, err
	d.end(b.keep && errors.Is(err, io.EOF))
}
