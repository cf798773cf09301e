package overproxy

import (
	"bufio"
	"bytes"
	"net"
	"sync"
)

// answer is what the upstream answers to each request.
var answer = []byte("HTTP/1.1 200 OK\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\nok\n")

// upstream answers with as little work as possible.
type upstream struct {
	address string
	l       net.Listener
	mu      sync.Mutex
	open    map[net.Conn]bool
	all     sync.WaitGroup
}

func startUpstream() (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // stop closes it
	if err != nil {
		return nil, err
	}
	u := &upstream{address: l.Addr().String(), l: l, open: map[net.Conn]bool{}}
	u.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.open[c] = true
			u.mu.Unlock()
			u.all.Go(func() { u.serve(c) })
		}
	})
	return u, nil
}

// serve answers the requests of a connection. Bodies come in chunks, if at all: the proxies pass them on so.
func (u *upstream) serve(c net.Conn) {
	defer func() {
		_ = c.Close() // the proxy has closed it
		u.mu.Lock()
		delete(u.open, c)
		u.mu.Unlock()
	}()
	in := bufio.NewReader(c)
	for {
		chunked := false
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			chunked = chunked || (line[0]|0x20) == 't' && bytes.EqualFold(bytes.TrimSpace(line), []byte("Transfer-Encoding: chunked"))
		}
		for last := !chunked; !last; {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			last = line[0] == '0'
			if !last {
				if _, err = in.ReadSlice('\n'); err != nil { // bodies have no line ends
					return
				}
			} else if _, err = in.Discard(2); err != nil {
				return
			}
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// stop closes all connections.
func (u *upstream) stop() {
	_ = u.l.Close() // it ends the accepting goroutine
	u.mu.Lock()
	for c := range u.open {
		_ = c.Close() // it ends the serving goroutine
	}
	u.mu.Unlock()
	u.all.Wait()
}
