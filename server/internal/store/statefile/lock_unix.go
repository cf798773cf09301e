//go:build unix && !solaris && !illumos && !aix

package statefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// takeLock locks a file for this process. The lock ends with the process.
func takeLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrInUse
		default:
			return err
		}
	}
}

func syncFolder(folder *os.File) error { return folder.Sync() }
