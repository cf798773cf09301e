package app

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// nowhere is the index of a network interface that there is not.
const nowhere = 1<<31 - 1

// quiet lets the kernel refuse new connections, and gives those that are being
// made the time to be accepted: settle, in which a handshake ends, and longer while
// there is something to accept. Closing a listener would reset the connections that
// nobody has accepted, and their clients take them for made. So the listener is first bound to an
// interface that there is not: nobody finds it there, but handshakes that have begun end.
func quiet(l *net.TCPListener, settle time.Duration) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	hidden := false
	if raw.Control(func(fd uintptr) {
		hidden = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, nowhere) == nil
	}) != nil || !hidden {
		return // by a kernel before 5.7; there is nothing to wait for, for they keep coming
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for now := began; now.Sub(began) < 10*settle; now = <-tick.C {
		waiting := false
		if raw.Control(func(fd uintptr) { waiting = readable(fd) }) != nil || (!waiting && now.Sub(began) >= settle) {
			return
		}
	}
}

// readable reports whether a listening socket has a connection to accept.
func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
