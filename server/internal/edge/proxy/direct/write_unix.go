//go:build unix

package direct

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// isQuiet reports whether a connection is open, and nothing has arrived on it.
func isQuiet(fd uintptr, space []byte) bool {
	for {
		_, _, err := syscall.Recvfrom(int(fd), space, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if !errors.Is(err, syscall.EINTR) {
			return errors.Is(err, syscall.EAGAIN)
		}
	}
}

// sendOnce begins to send a request, unless something has arrived that nobody requested. It does not wait. Bytes that
// arrive between the two system calls are taken for a part of the answer.
func (d *conn) sendOnce(fd uintptr) bool {
	s := &d.sending
	if s.stale = !isQuiet(fd, s.peek[:]); s.stale {
		return true
	}
	for {
		n, err := syscall.Write(int(fd), s.bytes)
		switch {
		case err == nil:
			s.n = n
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EAGAIN):
			s.err = &net.OpError{
				Op: "write", Net: "tcp", Source: d.conn.LocalAddr(), Addr: d.conn.RemoteAddr(), Err: os.NewSyscallError("write", err),
			}
		}
		return true
	}
}
