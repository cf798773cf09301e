package httplimit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// newFlows returns flows in the decider's store.
func newFlows(d *Decider, o *Options) (*gate.Flows, error) {
	onError := o.OnError
	return gate.NewFlows(d.Store(), gate.FlowOptions{OnError: func(ctx context.Context, err error) {
		r, _ := ctx.Value(requestKey{}).(*http.Request)
		onError(r, err)
	}})
}

// paced returns a handler like next that reads bodies and writes responses no faster than the rules
// with a Bandwidth allow. It counts the bytes of bodies, and all bytes of a connection that is
// hijacked. An answer that refuses a request is not paced.
func (m *Middleware) paced(v *policy.Verdict, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, came *http.Request) {
		r := came
		ctx := requestContext{r.Context(), r}
		down, up := m.flows.Of(ctx, v)
		out, w := newPacedResponse(ctx, w, down, up)
		defer out.close()
		if r.Method == http.MethodHead {
			out.response = bandwidth.NewWriter(ctx, (*pacedSink)(out)) // without flows, because the client gets no body
		}
		if len(up) > 0 && r.Body != nil && r.Body != http.NoBody {
			body := &pacedBody{bandwidth.NewReader(ctx, r.Body, up...), r.Body}
			defer body.Reader.Close()
			// A copy, because the server looks at the body of the original when the handler has
			// returned.
			r = r.WithContext(r.Context())
			r.Body = body
		}
		next.ServeHTTP(w, r)
		keepForm(came, r)
	})
}

// pacedBody is a request's body that is read no faster than its flows allow.
type pacedBody struct {
	*bandwidth.Reader
	body io.Closer
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = http.ErrBodyReadAfterClose
	}
	return n, err
}

// Close closes the body.
func (b *pacedBody) Close() error { return errors.Join(b.Reader.Close(), b.body.Close()) }

// pacedResponse is a ResponseWriter whose body is written no faster than its flows allow. A handler's
// deadline for writing is for the client: the time in which bytes are held back does not count.
type pacedResponse struct {
	http.ResponseWriter
	ctx      context.Context // the request's; hijacked connections use it
	control  *http.ResponseController
	response *bandwidth.Writer
	down, up []bandwidth.Flow

	mu       sync.Mutex
	deadline time.Time
	resting  time.Time // since when nothing is written
}

func newPacedResponse(ctx context.Context, w http.ResponseWriter, down, up []bandwidth.Flow) (*pacedResponse, http.ResponseWriter) {
	p := &pacedResponse{ResponseWriter: w, ctx: ctx, control: http.NewResponseController(w), down: down, up: up}
	p.response = bandwidth.NewWriter(ctx, (*pacedSink)(p), down...)
	flush, _ := w.(http.Flusher)
	push, _ := w.(http.Pusher)
	return p, expose(p, w, flush, pacedControl{p}, push)
}

func (p *pacedResponse) close() {
	_ = p.response.Close() // what cannot be given back is lost
}

// Unwrap is for http.ResponseController.
func (p *pacedResponse) Unwrap() http.ResponseWriter { return pacedControl{p} }

// FlushError sends what is written so far.
func (p *pacedResponse) FlushError() error { return p.control.Flush() }

func (p *pacedResponse) Write(piece []byte) (int, error) {
	p.rest()
	return p.response.Write(piece)
}

// WriteString is for io.WriteString.
func (p *pacedResponse) WriteString(s string) (int, error) { return p.Write([]byte(s)) }

// ReadFrom lets the kernel send files, if the inner writer can.
func (p *pacedResponse) ReadFrom(src io.Reader) (int64, error) {
	if _, ok := p.ResponseWriter.(io.ReaderFrom); !ok {
		return io.Copy(struct{ io.Writer }{p}, src)
	}
	p.rest()
	return p.response.ReadFrom(src)
}

// rest begins a time in which nothing is written to the client.
func (p *pacedResponse) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = time.Now()
}

// resume moves the deadline by the time in which nothing was written.
func (p *pacedResponse) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline.IsZero() {
		return
	}
	if rested := time.Since(p.resting); rested >= time.Millisecond {
		p.deadline = p.deadline.Add(rested)
		_ = p.control.SetWriteDeadline(p.deadline) // it has been set before without an error
	}
}

// pacedSink writes the bytes that may be written now.
type pacedSink pacedResponse

func (s *pacedSink) Write(piece []byte) (int, error) {
	p := (*pacedResponse)(s)
	p.resume()
	defer p.rest()
	return p.ResponseWriter.Write(piece)
}

// ReadFrom reads from a source that has only as many bytes as may be written now.
func (s *pacedSink) ReadFrom(src io.Reader) (int64, error) {
	p := (*pacedResponse)(s)
	p.resume()
	defer p.rest()
	return p.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

// pacedControl is the ResponseWriter that http.ResponseController finds inside a pacedResponse.
type pacedControl struct{ p *pacedResponse }

func (c pacedControl) Header() http.Header             { return c.p.Header() }
func (c pacedControl) Write(piece []byte) (int, error) { return c.p.Write(piece) }
func (c pacedControl) WriteHeader(status int)          { c.p.WriteHeader(status) }

// Unwrap is for http.ResponseController: it finds the methods that need no pacing.
func (c pacedControl) Unwrap() http.ResponseWriter { return c.p.ResponseWriter }

// SetWriteDeadline sets the deadline, which is moved by the time in which nothing is written.
func (c pacedControl) SetWriteDeadline(at time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if err := c.p.control.SetWriteDeadline(at); err != nil {
		return err
	}
	c.p.deadline = at
	return nil
}

// Hijack returns a connection that is paced too, until it is closed.
func (c pacedControl) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := c.p.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	// The connection outlives the request.
	paced := bandwidth.NewConn(context.WithoutCancel(c.p.ctx), conn, bandwidth.ConnOptions{Read: c.p.up, Write: c.p.down})
	// Bytes that the client has sent already are in the buffer, whose reader is not paced.
	sent, err := buffers.Reader.Peek(buffers.Reader.Buffered())
	if err != nil {
		return nil, nil, errors.Join(err, paced.Close())
	}
	reader := io.Reader(paced)
	if len(sent) > 0 {
		reader = io.MultiReader(bytes.NewReader(bytes.Clone(sent)), paced)
	}
	return paced, bufio.NewReadWriter(
		bufio.NewReaderSize(reader, buffers.Reader.Size()),
		bufio.NewWriterSize(paced, buffers.Writer.Size()),
	), nil
}
