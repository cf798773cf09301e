package accept

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nowhere is the index of a network interface that does not exist.
const nowhere = 1<<31 - 1

// quiet makes the kernel refuse new connections, and waits until the connections that clients have
// begun are accepted. It waits for settle, in which a handshake ends, and up to ten times as long
// while there is something to accept. Closing a listener would reset the connections that are not
// accepted yet, although their clients take them for open. So the listener is first bound to an
// interface that does not exist. No client reaches it there, but handshakes that have begun can
// finish.
func quiet(l *net.TCPListener, settle time.Duration) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	hidden := false
	if raw.Control(func(fd uintptr) {
		hidden = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, nowhere) == nil
	}) != nil || !hidden {
		return // a kernel before 5.7 refuses this; do not wait, because connections keep coming
	}
	accepted(l, settle, 10*settle)
}

// accepted waits at least for one time, and while there is a connection to accept up to another time.
func accepted(l syscall.Conn, least, most time.Duration) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for now := began; now.Sub(began) < most; now = <-tick.C {
		waiting := false
		if raw.Control(func(fd uintptr) { waiting = readable(fd) }) != nil || (!waiting && now.Sub(began) >= least) {
			return
		}
	}
}

// closeSocket lets only this user connect to a socket that is about to be bound, whatever the umask of the process.
func closeSocket(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) } // its file gets its permissions later anyway

// readable reports whether a listening socket has a connection to accept.
func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// sharePort lets other processes of this user listen at the address of a socket.
func sharePort(raw syscall.RawConn) error {
	var err error
	if failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); failed != nil {
		return failed
	}
	return err
}

// yieldPort sends new connections to the process that began to listen at a shared address after this one. The kernel
// keeps the sockets of an address in a list, this one first, and runs a program to choose: the program returns 1, the
// second. Without a second, the kernel ignores it.
func yieldPort(l *net.TCPListener) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	second := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
	_ = raw.Control(func(fd uintptr) { // without it, clients of the other process wait for a second
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &second})
	})
}
