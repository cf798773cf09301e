package web

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// net/http decodes a request with Transfer-Encoding and Content-Length by the former, drops the latter, and
// reads the next request from the same connection. A proxy in front that goes by the length has sent
// something else as the next request. So the connection must end with such a request (RFC 9112, 6.1), and
// only the bytes of the connection show which request that is.

// framedListener accepts connections that count the Content-Length headers that arrive.
type framedListener struct{ net.Listener }

// Accept waits for a connection.
func (l framedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &framedConn{Conn: c}, nil
}

// framedConn is a connection over HTTP/1 that counts lines that begin as a Content-Length header does.
type framedConn struct {
	net.Conn
	scanned LengthCount
	// arrived is the number of these lines so far. Lines in bodies count too: then a connection ends that need not.
	arrived atomic.Int64
	handled atomic.Int64 // how many of them were headers of requests that have reached the handler
}

// headRead is the size of the buffer through which net/http reads heads. Larger reads are of bodies only.
const headRead = 4 << 10

// Read reads from the connection.
func (c *framedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if len(p) > headRead {
		c.scanned.skip()
		return n, err
	}
	if lines := int64(c.scanned.Scan(p[:n])); lines != c.arrived.Load() {
		c.arrived.Store(lines)
	}
	return n, err
}

// CloseWrite ends what is sent, so that a client reads the last answer before the connection closes.
func (c *framedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// connKey is the key of a request's framedConn in its context.
type connKey struct{}

// withConn is the http.Server.ConnContext that keeps the connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if framed, ok := c.(*framedConn); ok {
		return context.WithValue(ctx, connKey{}, framed)
	}
	return ctx
}

// framed ends the connections of requests over HTTP/1 that have both a Transfer-Encoding and a
// Content-Length. The bytes of a connection over TLS are hidden here, so there it ends all connections
// of requests with a Transfer-Encoding. It also ends the connections of all requests over HTTP/1.0: there,
// net/http ignores a Transfer-Encoding by which a proxy in front may go.
func framed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.ProtoMajor != 1:
		case r.ProtoMinor == 0:
			w.Header().Set("Connection", "close")
		case len(r.TransferEncoding) > 0:
			if c, ok := r.Context().Value(connKey{}).(*framedConn); !ok || c.arrived.Load() > c.handled.Load() {
				w.Header().Set("Connection", "close")
			}
		case r.ContentLength > 0 || r.Header["Content-Length"] != nil:
			if c, ok := r.Context().Value(connKey{}).(*framedConn); ok {
				c.handled.Add(1)
			}
		}
		next.ServeHTTP(w, r)
	})
}
