package httplimit

import (
	"io"
	"net/http"
	"sync"
)

// mostAhead bounds how much of a body is read while its request waits.
const mostAhead = 32 << 10

// aheadBody is the body of a request that waits, the beginning of which is read meanwhile. Over
// HTTP/1 a server learns that a client has left from its connection, which it reads from the end of the
// body on: without this, who leaves with a body unread would keep the place in the queue.
type aheadBody struct {
	io.ReadCloser

	mu      sync.Mutex
	came    sync.Cond
	held    []byte
	err     error // that follows what is held
	reading bool
	wanted  bool // somebody else reads
}

// readAhead returns the request with a body that is read ahead, as far as it is needed. A
// client that asks whether it may send its body has not sent any; and what takes over a connection
// needs it for itself.
func readAhead(r *http.Request) *http.Request {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || r.Body == nil || r.Header["Expect"] != nil || r.Header["Upgrade"] != nil {
		return r
	}
	b := &aheadBody{ReadCloser: r.Body, reading: true}
	b.came.L = &b.mu
	from := r
	r = r.WithContext(r.Context()) // a copy: the server looks at the body of its own
	r.Body = b
	trailing(r, from, nil)
	go b.fill()
	return r
}

// fill reads until there is enough or no more, or somebody else wants to read.
func (b *aheadBody) fill() {
	for more, piece := true, make([]byte, 2<<10); more; {
		n, err := b.ReadCloser.Read(piece)
		b.mu.Lock()
		b.held = append(b.held, piece[:n]...)
		b.err = err
		b.reading = err == nil && !b.wanted && len(b.held)+len(piece) <= mostAhead
		more = b.reading
		b.came.Broadcast()
		b.mu.Unlock()
	}
}

// Read reads what is held, and then the rest.
func (b *aheadBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.wanted = true
	for len(b.held) == 0 && b.reading {
		b.came.Wait()
	}
	if len(b.held) == 0 && b.err == nil {
		b.mu.Unlock()
		return b.ReadCloser.Read(p)
	}
	defer b.mu.Unlock()
	n := copy(p, b.held)
	if b.held = b.held[n:]; len(b.held) > 0 {
		return n, nil
	}
	b.held = nil
	return n, b.err
}
