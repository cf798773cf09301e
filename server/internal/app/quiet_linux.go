package app

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// quiet stops new connections from coming and waits until those that came are
// accepted. Closing a listener resets the connections that the kernel has made and
// nobody has accepted, and their clients take them for made. A filter that drops all packets
// of the listening socket leaves none: who connects now is refused when the listener is closed.
func quiet(l *net.TCPListener, patience time.Duration) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	filter := unix.SockFprog{Len: 1, Filter: &drop}
	filtered := false
	if raw.Control(func(fd uintptr) {
		filtered = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &filter) == nil
	}) != nil || !filtered {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		waiting := false
		if raw.Control(func(fd uintptr) { waiting = readable(fd) }) != nil || !waiting {
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
