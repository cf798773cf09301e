package proxy

import (
	"bufio"
	"maps"
	"net"
	"net/http"
	"time"
)

// answer is the ResponseWriter that an upstream's answer is written to. The middleware that
// limits the rate may have set headers before. Answer keeps these headers out of interim
// answers, and adds them to the final answer. It also bounds how long a client may leave a
// piece unread.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	// body is the body of a request over HTTP/1, nil if it has none.
	body *patientBody
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
	// The server's own limits are for answers that this program makes. The upstream may take
	// the time that its settings give it.
	_ = a.control.SetWriteDeadline(time.Time{})
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
	if !a.body.whole() {
		// The rest of the body may never come, and it is not a request. Without this header,
		// the server would also read the rest itself before it sends the answer. Then the
		// answer would come late, or broken if a service answers while the body still comes.
		h.Set("Connection", "close")
	}
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

// deadline sets a deadline for writes, until the returned function is called. Writers
// without deadlines, in tests, are left alone.
func (a *answer) deadline() func() {
	if a.control.SetWriteDeadline(time.Now().Add(a.stall)) != nil {
		return func() {}
	}
	return func() { _ = a.control.SetWriteDeadline(time.Time{}) }
}
