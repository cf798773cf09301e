package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/direct"
	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
)

// mostInterim is how many interim answers (1xx) of a request are passed on. A service that sends more is broken.
const mostInterim = 64

// Errors for answers that are not passed on.
var (
	errTooManyInterim     = errors.New("proxy: the upstream sent too many interim answers")
	errUnrequestedUpgrade = errors.New("proxy: the upstream switched the protocol unrequested")
	errStatus             = errors.New("proxy: the status of the upstream's answer is not in 200–999")
)

// checkStatus returns why an answer cannot be passed on.
func checkStatus(status int) error {
	switch {
	case status == http.StatusSwitchingProtocols:
		return errUnrequestedUpgrade
	case status < 200 || status > 999:
		return errStatus
	}
	return nil
}

// interim passes on the interim answers of one request. The transport may report them in a goroutine of its own.
type interim struct {
	to *answer

	mu    sync.Mutex
	count int
	over  bool
	// giveUp ends an upgrade with too many interim answers, because package httputil takes no error for them.
	giveUp context.CancelCauseFunc
}

// pass passes on an interim answer, unless the request has ended. An error ends the request.
func (i *interim) pass(status int, header http.Header) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return nil
	}
	maps.Copy(i.to.Header(), header)
	err := i.to.writeInterim(status)
	clear(i.to.Header())
	return err
}

// end makes further interim answers end nowhere.
func (i *interim) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
}

// pieces are buffers for pieces of answers.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// pass passes an answer on, with its body and trailers. Before a read from the connection c would block, it sends what
// it has. The connection is nil if it is unknown or shared; then everything is sent at once.
func (p *Proxy) pass(a *answer, res *http.Response, c *upstream.Conn) {
	announced := len(res.Trailer)
	a.begin(res)
	if res.Body != http.NoBody {
		defer res.Body.Close() // gives up what is left of it
		if err := p.passBody(a, res.Body, res.ContentLength, c); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if len(res.Trailer) == 0 {
		return
	}
	_ = a.FlushError() // chunked, or the server would compute a length for a short body
	for name, values := range res.Trailer {
		if len(res.Trailer) != announced {
			name = http.TrailerPrefix + name
		}
		h := a.Header()
		h[name] = append(h[name], values...)
	}
}

// passBody copies the body of an answer, whose length is negative if it is unknown. It ends with a nil error at the end
// of the body.
func (p *Proxy) passBody(a *answer, body io.Reader, length int64, c *upstream.Conn) error {
	if c != nil {
		c.Serve(a)
		defer c.Release(a)
	}
	piece := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(piece)
	var copied int64
	for {
		if c == nil && copied != length {
			if err := a.FlushPending(); err != nil {
				return err
			}
		}
		n, err := body.Read(piece[:])
		if err != nil && c != nil {
			c.Release(a)
		}
		if n > 0 {
			copied += int64(n)
			if _, err := a.Write(piece[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		default:
			_ = a.FlushPending() // the client gets what came, and sees that the answer broke off
			if !errors.Is(err, context.Canceled) {
				p.o.ErrorLog.Printf("proxy: the answer of the upstream broke off: %v", err)
			}
			return err
		}
	}
}

// passPlain passes a plain answer on.
func (p *Proxy) passPlain(a *answer, plain *direct.Plain, c *upstream.Conn) {
	defer plain.Close() // gives up what is left of it
	plain.AddTo(a.ResponseWriter.Header())
	a.written = true
	a.WriteHeader(plain.Status)
	if plain.Left == 0 {
		return
	}
	var err error
	if piece, ok := plain.Small(); ok {
		_, err = a.Write(piece)
	} else {
		err = p.passBody(a, plain, plain.Left, c)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// begin writes the header of an upstream's answer, after ours.
func (a *answer) begin(res *http.Response) {
	dropNominated(res.Header, res.Header["Connection"])
	h := a.ResponseWriter.Header()
	for name, values := range res.Header {
		if perHop[name] {
			continue
		}
		if own := h[name]; len(own) > 0 {
			values = append(own[:len(own):len(own)], values...)
		}
		h[name] = values
	}
	if len(res.Trailer) > 0 {
		h["Trailer"] = append(h["Trailer"], strings.Join(slices.Sorted(maps.Keys(res.Trailer)), ", "))
	}
	a.written = true
	a.WriteHeader(res.StatusCode)
}
