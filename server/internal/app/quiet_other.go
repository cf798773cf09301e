//go:build !linux

package app

import (
	"net"
	"time"
)

// quiet does nothing here: a connection that is made in the moment in which the
// listener is closed is reset.
func quiet(*net.TCPListener, time.Duration) {}
