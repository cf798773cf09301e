//go:build unix

package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// CanReadRaw reports whether connections are read by their descriptors.
const CanReadRaw = true

// attempt reads once. It returns false if nothing has arrived, after what is pending has been sent.
func (c *Conn) attempt(fd uintptr) bool {
	r := &c.reading
	for {
		n, err := syscall.Read(int(fd), r.to)
		switch {
		case err == nil && n == 0:
			r.n, r.err = 0, io.EOF
		case err == nil:
			r.n, r.err = n, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			if err := c.flush(); err != nil {
				r.n, r.err = 0, err
				c.Lost = true
				return true
			}
			return false
		default:
			r.n, r.err = 0, &net.OpError{
				Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("read", err),
			}
		}
		return true
	}
}
