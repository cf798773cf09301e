package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder remembers the status of a response, and how many bytes its body has. What
// else the ResponseWriter can do, the writer that newRecorder returns can do too.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
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

// WriteHeader remembers the first status that is final.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// WriteString is for io.WriteString.
func (w *recorder) WriteString(s string) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := io.WriteString(w.ResponseWriter, s)
	w.bytes += int64(n)
	return n, err
}

// The parts of a ResponseWriter that handlers ask for by a type assertion.
type (
	flusher    struct{ w *recorder }
	hijacker   struct{ w *recorder }
	readerFrom struct{ w *recorder }
	pusher     struct{ w *recorder }
)

func (f flusher) Flush() {
	if f.w.status == 0 {
		f.w.status = http.StatusOK
	}
	f.w.ResponseWriter.(http.Flusher).Flush()
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := h.w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.w.status == 0 {
		h.w.status = http.StatusSwitchingProtocols
	}
	return conn, buf, err
}

func (f readerFrom) ReadFrom(src io.Reader) (int64, error) {
	if f.w.status == 0 {
		f.w.status = http.StatusOK
	}
	n, err := f.w.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
	f.w.bytes += n
	return n, err
}

func (p pusher) Push(target string, o *http.PushOptions) error {
	return p.w.ResponseWriter.(http.Pusher).Push(target, o)
}

// newRecorder wraps a ResponseWriter. The writer is a Flusher, Hijacker,
// ReaderFrom or Pusher only if the ResponseWriter is.
func newRecorder(w http.ResponseWriter) (*recorder, http.ResponseWriter) {
	const (
		canFlush = 1 << iota
		canHijack
		canReadFrom
		canPush
	)
	can := 0
	if _, ok := w.(http.Flusher); ok {
		can |= canFlush
	}
	if _, ok := w.(http.Hijacker); ok {
		can |= canHijack
	}
	if _, ok := w.(io.ReaderFrom); ok {
		can |= canReadFrom
	}
	if _, ok := w.(http.Pusher); ok {
		can |= canPush
	}
	r := &recorder{ResponseWriter: w}
	f, h, rf, p := flusher{r}, hijacker{r}, readerFrom{r}, pusher{r}
	switch can {
	case canFlush:
		return r, struct {
			*recorder
			flusher
		}{r, f}
	case canHijack:
		return r, struct {
			*recorder
			hijacker
		}{r, h}
	case canFlush | canHijack:
		return r, struct {
			*recorder
			flusher
			hijacker
		}{r, f, h}
	case canReadFrom:
		return r, struct {
			*recorder
			readerFrom
		}{r, rf}
	case canFlush | canReadFrom:
		return r, struct {
			*recorder
			flusher
			readerFrom
		}{r, f, rf}
	case canHijack | canReadFrom:
		return r, struct {
			*recorder
			hijacker
			readerFrom
		}{r, h, rf}
	case canFlush | canHijack | canReadFrom:
		return r, struct {
			*recorder
			flusher
			hijacker
			readerFrom
		}{r, f, h, rf}
	case canPush:
		return r, struct {
			*recorder
			pusher
		}{r, p}
	case canFlush | canPush:
		return r, struct {
			*recorder
			flusher
			pusher
		}{r, f, p}
	case canHijack | canPush:
		return r, struct {
			*recorder
			hijacker
			pusher
		}{r, h, p}
	case canFlush | canHijack | canPush:
		return r, struct {
			*recorder
			flusher
			hijacker
			pusher
		}{r, f, h, p}
	case canReadFrom | canPush:
		return r, struct {
			*recorder
			readerFrom
			pusher
		}{r, rf, p}
	case canFlush | canReadFrom | canPush:
		return r, struct {
			*recorder
			flusher
			readerFrom
			pusher
		}{r, f, rf, p}
	case canHijack | canReadFrom | canPush:
		return r, struct {
			*recorder
			hijacker
			readerFrom
			pusher
		}{r, h, rf, p}
	case canFlush | canHijack | canReadFrom | canPush:
		return r, struct {
			*recorder
			flusher
			hijacker
			readerFrom
			pusher
		}{r, f, h, rf, p}
	default:
		return r, r
	}
}
