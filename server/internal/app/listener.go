package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/sluicehq/sluice/policyfile"
)

// bind opens a listener of the configuration, nil if it is off.
func bind(name string, l policyfile.Listener) (net.Listener, error) {
	if l.Off() {
		return nil, nil //nolint:nilnil // a listener may be off
	}
	var config net.ListenConfig
	ln, err := config.Listen(context.Background(), "tcp", l.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the %s listener: %s is in use by another program; stop that one, or listen elsewhere: "+
			"--listen-%s HOST:PORT, SLUICE_LISTEN_%s, or listen.%s in the configuration", name, l.Address, name, upper(name), name)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("the %s listener: %s needs more rights than this program has; choose a port from 1024 up, "+
			"or allow it to bind lower ones: --listen-%s HOST:PORT", name, l.Address, name)
	case err != nil:
		return nil, fmt.Errorf("the %s listener: %w; give an address of this machine as HOST:PORT to --listen-%s", name, err, name)
	}
	return ln, nil
}

// upper writes a name in capitals.
func upper(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// boundedListener accepts a bounded number of connections at once. Further connections wait in the kernel's
// queue.
type boundedListener struct {
	net.Listener
	free   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBoundedListener(l net.Listener, most int) net.Listener {
	if most <= 0 {
		return l
	}
	return &boundedListener{Listener: l, free: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits until a connection may be open, and then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.free })}, nil
}

// Close closes the listener.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// boundedConn makes room for another connection when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
