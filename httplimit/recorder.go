package httplimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice/policy"
)

// recorder records the status of a response, and how many bytes its body has. The writer that
// newRecorder returns has the optional methods of the ResponseWriter.
type recorder struct {
	http.ResponseWriter
	ctx      context.Context //nolint:containedctx // of the request, which ends when the client leaves
	status   int
	late     bool // the client had left before the status was written
	bytes    int64
	failed   bool // a write failed
	hijacked bool
	reported *Pending
	model    *modelAnswer // nil for other answers
}

// begin records the status of the response, if it is the first one.
func (w *recorder) begin(status int) {
	if w.status == 0 {
		w.status, w.late = status, w.ctx.Err() != nil
		w.model.begin(w.Header(), w.ResponseWriter)
	}
}

// wrote records a write.
func (w *recorder) wrote(n int64, err error) {
	w.bytes += n
	w.failed = w.failed || err != nil
}

// outcome returns the outcome of a request whose handler has returned, or has panicked. If the client left
// before the handler wrote a status, the outcome is unknown: the handler may have stopped because the
// client left.
func (w *recorder) outcome(panicked bool) policy.Outcome {
	o := policy.Outcome{Status: w.status, ResponseBytes: w.bytes + w.reported.discarded, Header: w.find, Running: w.reported.running, Unsent: w.reported.unsent}
	gone := w.ctx.Err() != nil
	switch {
	case w.reported.unknown:
		o.Unknown = true
	case w.reported.answered != 0:
		o.Status = w.reported.answered
	case w.status != 0:
		o.Unknown = w.late
	case gone:
		o.Unknown = true
	case panicked:
		o.Status, o.Unknown = http.StatusInternalServerError, w.model != nil // the model may have answered
	default:
		o.Status = http.StatusOK
	}
	o.Partial = !w.reported.complete && (panicked || w.failed || w.hijacked || gone && !w.isWhole())
	return o
}

// isWhole reports whether a client that has left had received the whole response, as far as it can know:
// the end of a body without a length comes after the handler.
func (w *recorder) isWhole() bool {
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return true
	}
	length, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return err == nil && w.bytes >= length
}

// find returns a header of the response, or a trailer.
func (w *recorder) find(name string) (string, bool) {
	h := w.Header()
	for _, name := range [...]string{name, http.TrailerPrefix + name} {
		if lines := h[name]; len(lines) > 0 {
			return lines[0], true
		}
	}
	return "", false
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader records the first status that is final.
func (w *recorder) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.write(p)
	w.wrote(int64(n), err)
	return n, err
}

// write passes on a piece of the body.
func (w *recorder) write(p []byte) (int, error) {
	if w.model == nil {
		return w.ResponseWriter.Write(p)
	}
	w.model.scan(p)
	if w.model.trimmer != nil {
		return w.model.trimmer.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// WriteString is for io.WriteString.
func (w *recorder) WriteString(s string) (int, error) {
	if w.model != nil {
		return w.Write([]byte(s))
	}
	w.begin(http.StatusOK)
	n, err := io.WriteString(w.ResponseWriter, s)
	w.wrote(int64(n), err)
	return n, err
}

// ReadFrom lets the kernel send files, if the inner writer can.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	inner, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok || w.model != nil {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	w.begin(http.StatusOK)
	n, err := inner.ReadFrom(src)
	w.wrote(n, err)
	return n, err
}

// FlushError sends what is written so far.
func (w *recorder) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// The parts of a ResponseWriter that handlers test for by a type assertion.
type (
	flusher  struct{ w *recorder }
	hijacker struct{ w *recorder }
	pusher   struct{ w *recorder }
)

func (f flusher) Flush() {
	f.w.begin(http.StatusOK)
	f.w.ResponseWriter.(http.Flusher).Flush()
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := h.w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.w.begin(http.StatusSwitchingProtocols)
		h.w.hijacked = true
	}
	return conn, buf, err
}

func (p pusher) Push(target string, o *http.PushOptions) error {
	return p.w.ResponseWriter.(http.Pusher).Push(target, o)
}

// newRecorder wraps a ResponseWriter. The writer is a Flusher, Hijacker or Pusher only if the ResponseWriter is.
func newRecorder(ctx context.Context, w http.ResponseWriter, reported *Pending) (*recorder, http.ResponseWriter) {
	r := &recorder{ResponseWriter: w, ctx: ctx, reported: reported}
	return r, expose(r, w, flusher{r}, hijacker{r}, pusher{r})
}

// shell is a ResponseWriter around another one, which http.ResponseController finds.
type shell interface {
	http.ResponseWriter
	io.StringWriter
	io.ReaderFrom
	// FlushError is for http.ResponseController. With Flush only, it would report every flush as a
	// success.
	FlushError() error
	Unwrap() http.ResponseWriter
}

// expose returns w as a ResponseWriter. The result is a Flusher, Hijacker or Pusher only if the inner writer
// is: handlers test for these by a type assertion, and none of them has a substitute.
func expose(w shell, inside http.ResponseWriter, f http.Flusher, h http.Hijacker, p http.Pusher) http.ResponseWriter {
	const (
		canFlush = 1 << iota
		canHijack
		canPush
	)
	can := 0
	if _, ok := inside.(http.Flusher); ok {
		can |= canFlush
	}
	if _, ok := inside.(http.Hijacker); ok {
		can |= canHijack
	}
	if _, ok := inside.(http.Pusher); ok {
		can |= canPush
	}
	switch can {
	case canFlush:
		return struct {
			shell
			http.Flusher
		}{w, f}
	case canHijack:
		return struct {
			shell
			http.Hijacker
		}{w, h}
	case canFlush | canHijack:
		return struct {
			shell
			http.Flusher
			http.Hijacker
		}{w, f, h}
	case canPush:
		return struct {
			shell
			http.Pusher
		}{w, p}
	case canFlush | canPush:
		return struct {
			shell
			http.Flusher
			http.Pusher
		}{w, f, p}
	case canHijack | canPush:
		return struct {
			shell
			http.Hijacker
			http.Pusher
		}{w, h, p}
	case canFlush | canHijack | canPush:
		return struct {
			shell
			http.Flusher
			http.Hijacker
			http.Pusher
		}{w, f, h, p}
	default:
		return w
	}
}
