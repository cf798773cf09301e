package floor

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
)

// Proxy is the least that a proxy costs over net/http: each request is written to a pooled connection, and its answer
// read and copied, in the goroutine of the handler. It has no deadlines, cancels nothing, repeats nothing, and believes
// each answer. Host names the upstream.
type Proxy struct {
	Host string

	mu   sync.Mutex
	free []*proxyConn
}

type proxyConn struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

// ServeHTTP passes one request on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := p.take()
	if err != nil {
		http.Error(w, "no upstream", http.StatusBadGateway)
		return
	}
	if err := c.pass(w, r); err != nil {
		_ = c.Close() // it is not used again
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}

func (p *Proxy) take() (*proxyConn, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := net.Dial("tcp", p.Host) //nolint:noctx // a floor cancels nothing
	if err != nil {
		return nil, err
	}
	return &proxyConn{c, bufio.NewReader(c), bufio.NewWriter(c)}, nil
}

// pass passes one request on, and its answer back.
func (c *proxyConn) pass(w http.ResponseWriter, r *http.Request) error {
	if err := r.Write(c.out); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	h := w.Header()
	for name, values := range res.Header {
		h[name] = values
	}
	w.WriteHeader(res.StatusCode)
	_, err = io.Copy(w, res.Body)
	return err
}
