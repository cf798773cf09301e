package proxy

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sluicehq/sluice/httplimit"
)

// answer is the ResponseWriter that an upstream's answer is written to. The middleware that
// limits the rate may have set headers before. Answer keeps these headers out of interim
// answers, and adds them to the final answer. It also bounds how long a client may leave a
// piece unread.
type answer struct {
	http.ResponseWriter
	control   http.ResponseController
	interim   interim
	old       bool // the client speaks HTTP/1.0
	continues bool // the server itself writes that the client may continue, when the body is read
	pace      pace
	client    context.Context //nolint:containedctx // of the request, which ends when the client leaves
	// body is the body of the request, nil if it has none.
	body *patientBody
	// pending and passage are set if something depends on the outcome of the request.
	pending *httplimit.Pending
	passage *passage
	// own says that the answer is the proxy's, and hijacked that the connection is an upgraded one.
	own, hijacked bool
	// stuck says that a write failed: the client receives nothing more.
	stuck     bool
	discarded int64
	// upstream is the header under construction, until it is written. It is made when it is needed.
	upstream http.Header
	written  bool
	// unsent says that something was written and not flushed.
	unsent bool
	// until is the deadline for writes.
	until  deadline
	writes writes
}

func (p *Proxy) newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{
		ResponseWriter: w,
		old:            !r.ProtoAtLeast(1, 1),
		continues:      r.Header["Expect"] != nil,
		control:        *http.NewResponseController(w),
		pace:           p.pace(),
		client:         r.Context(),
		pending:        httplimit.PendingOf(r),
	}
	a.interim.to = a
	a.writes.control = &a.control
	a.until.of = &a.writes
	// Plain HTTP/1 has no use for a deadline until the next write, which sets another one. Under HTTP/2 it ends the
	// stream, TLS may write by itself, and the server writes by itself that the client may continue.
	a.until.lasts = r.ProtoMajor == 1 && r.TLS == nil && !a.continues
	if !a.until.lasts {
		// The server's own limits are for answers that this program makes. The upstream may take
		// the time that its settings give it.
		_ = a.control.SetWriteDeadline(time.Time{})
	}
	return a
}

// Unwrap lets http.ResponseController find the methods of w.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Header returns the upstream's part of the header. After the header is written, it returns
// the whole header, because trailers are put there.
func (a *answer) Header() http.Header {
	if a.written {
		return a.ResponseWriter.Header()
	}
	if a.upstream == nil {
		a.upstream = http.Header{}
	}
	return a.upstream
}

// WriteHeader writes an interim answer, or the header of the final one.
func (a *answer) WriteHeader(status int) {
	h := a.ResponseWriter.Header()
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		if err := a.writeInterim(status); err != nil {
			a.interim.giveUp(err)
		}
		return
	}
	a.merge()
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // the server would guess one
	}
	if !a.own {
		a.pending.Answered(status)
		if a.body != nil {
			a.body.answered.Store(true)
		}
	}
	if a.body != nil && a.body.http1 && !a.body.isWhole() {
		// The rest of the body may never come, and it is not a request. Without this header,
		// the server would also read the rest itself before it sends the answer. Then the
		// answer would come late, or broken if a service answers while the body still comes.
		h.Set("Connection", "close")
	}
	a.ResponseWriter.WriteHeader(status)
	a.unsent = true
}

// writeInterim writes an interim answer. Clients of HTTP/1.0 know none, and would take it for the final one. The answer 100
// makes the transport read the body, and then the server writes 100 itself: a client gets one.
func (a *answer) writeInterim(status int) error {
	if a.interim.count++; a.interim.count > mostInterim {
		return errTooManyInterim
	}
	if a.old || a.continues && status == http.StatusContinue {
		return nil
	}
	h := a.ResponseWriter.Header()
	ours := maps.Clone(h)
	clear(h)
	dropNominated(a.upstream, a.upstream["Connection"])
	for name, values := range a.upstream {
		if !perHop[name] {
			h[name] = values
		}
	}
	a.until.begin(time.Now(), a.pace.next()) // it is sent at once
	a.ResponseWriter.WriteHeader(status)
	a.until.end()
	clear(h)
	maps.Copy(h, ours)
	return nil
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
	if a.discards() {
		return a.discard(piece)
	}
	began := a.beginWrite()
	n, err := a.ResponseWriter.Write(piece)
	a.endWrite(n, began)
	a.unsent = true
	if err != nil && a.passage != nil {
		a.lose()
		rest, err := a.discard(piece[n:])
		return n + rest, err
	}
	return n, err
}

// FlushError sends what was written.
func (a *answer) FlushError() error {
	if a.discards() {
		return nil
	}
	a.unsent = false
	began := a.beginWrite()
	err := a.control.Flush()
	a.endWrite(0, began)
	if err != nil && a.passage != nil {
		a.lose()
		return nil
	}
	return err
}

// FlushPending sends what was written since the last flush.
func (a *answer) FlushPending() error {
	if !a.unsent {
		return nil
	}
	return a.FlushError()
}

// Hijack hands the connection over, for an upgrade.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := a.control.Hijack()
	if err == nil {
		a.hijacked = true
		a.merge()
	}
	return conn, buffers, err
}

// beginWrite bounds how long a client may leave unread what is written next.
func (a *answer) beginWrite() time.Time {
	began := time.Now()
	a.until.begin(began, a.pace.next())
	return began
}

// endWrite ends what beginWrite began, and which moved n bytes.
func (a *answer) endWrite(n int, began time.Time) {
	a.pace.moved(n, time.Since(began))
	a.until.end()
}

// discards reports whether the answer is received only for its outcome.
func (a *answer) discards() bool { return a.passage.hasLeft() }

// lose reports that the client receives nothing more, whether it has left or reads too slowly.
func (a *answer) lose() {
	a.stuck = true
	a.passage.leave()
}

// errEnough ends an answer of which enough was received: the service learns that nobody reads it when it writes.
var errEnough = errors.New("proxy: nobody reads the answer")

// discard takes a piece of an answer that the client does not get. One piece of an event stream is enough,
// because the stream does not end by itself. An answer that rules read is awaited to its end.
func (a *answer) discard(piece []byte) (int, error) {
	a.pending.Discarded(piece)
	a.discarded += int64(len(piece))
	if !a.pending.Reads() && (a.discarded > a.passage.all.o.Drain || isEventStream(a.ResponseWriter.Header())) {
		return 0, errEnough
	}
	return len(piece), nil
}

func isEventStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}

// statusGone is the status of a request whose client left before it was passed on. It has the number that nginx uses.
const statusGone = 499

// failed reports a request to which the upstream gave no answer.
func (a *answer) failed(f Failure) {
	a.own = true
	switch {
	case a.pending == nil:
	case a.passage == nil || !a.passage.wasSent():
		status := f.Status()
		if f == ClientGone {
			status = statusGone
		}
		a.pending.Answered(status)
		a.pending.Unsent()
	default:
		a.pending.Unknown()
		if f == AnswerTimeout || f.Client() && !a.passage.cancels {
			a.pending.Running()
		}
	}
}

// end reports an answer that came to its end.
func (a *answer) end() {
	if a.passage == nil || a.own || a.hijacked {
		return
	}
	a.pending.Complete()
	if a.discarded > 0 || a.stuck {
		panic(http.ErrAbortHandler) // or a truncated answer could look like a whole one
	}
}

// finish ends the passage of the request.
func (a *answer) finish() {
	if a.passage.finish() {
		a.pending.Running()
	}
	if a.passage.cancels && a.passage.hasLeft() {
		a.pending.Canceled()
	}
}
