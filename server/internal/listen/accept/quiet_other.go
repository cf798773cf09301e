//go:build !linux

package accept

import (
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
