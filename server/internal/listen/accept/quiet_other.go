//go:build !linux

package accept

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// quiet does nothing here: a connection that is made at the moment when the listener closes is reset.
func quiet(*net.TCPListener, time.Duration) {}

// accepted does nothing here either.
func accepted(syscall.Conn, time.Duration, time.Duration) {}

// closeSocket does nothing here: the umask of the process decides who can connect until the file has its permissions.
func closeSocket(uintptr) {}

// sharePort fails: other systems share an address in other ways.
func sharePort(syscall.RawConn) error {
	return errors.New("reuse_port works on Linux only; leave it out")
}

// yieldPort does nothing here.
func yieldPort(*net.TCPListener) {}
