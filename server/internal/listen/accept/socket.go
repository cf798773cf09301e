package accept

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluicehq/sluice/server/internal/writable"
)

// socket is a listener at a Unix socket. See docs/adr/0048.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo // which the listener made
}

// listenSocket makes a Unix socket whose file has the permissions of mode. It replaces the file of a program that has
// ended, and no other file.
func listenSocket(path string, mode fs.FileMode) (*socket, error) {
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return raw.Control(closeSocket) }}
	ln, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	s := &socket{UnixListener: ln.(*net.UnixListener), path: path} //nolint:forcetypeassert // the network is unix
	s.SetUnlinkOnClose(false)                                      // remove does it
	if s.file, err = os.Lstat(path); err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		_ = s.Close() // it has not served
		return nil, err
	}
	return s, nil
}

// checkSocketFile returns why no socket could be made at a path, even if no other program listens there. It changes
// nothing.
func checkSocketFile(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("unix:%s: %w", path, errNoSocket)
	}
	return writable.Folder(filepath.Dir(path))
}

// errNoSocket is the error for a path at which there is another file.
var errNoSocket = errors.New("there is a file that is not a socket; remove it")

// clearSocket removes the file of a program that has ended. The error is syscall.EADDRINUSE if the program listens.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errNoSocket
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = c.Close() // nothing was sent
		return syscall.EADDRINUSE
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case errors.Is(err, syscall.EAGAIN): // its queue of connections is full
		return syscall.EADDRINUSE
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("there is a socket, and whether a program listens is unknown: %w; remove its file if not", err)
}

// remove removes the file, unless another program has replaced it.
func (s *socket) remove() {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		_ = os.Remove(s.path) // what stays is replaced at the next start
	}
}

// quiet lets no client connect any more, and waits until the connections that clients have made are accepted. Closing a
// listener would reset them.
func (s *socket) quiet(settle time.Duration) {
	s.remove()
	accepted(s.UnixListener, 0, 10*settle)
}

// Close removes the file and closes the listener.
func (s *socket) Close() error {
	s.remove()
	return s.UnixListener.Close()
}
