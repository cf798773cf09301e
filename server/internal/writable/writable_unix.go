//go:build unix && !solaris && !illumos && !aix

package writable

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	toWrite = unix.W_OK
	toMake  = unix.W_OK | unix.X_OK
)

// allowed returns why the user of this program may not use a file or a folder.
func allowed(path string, mode uint32) error {
	err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("this program may not write %s; allow it to its user: %w", path, err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s is on a file system that is read-only; give a path on another one: %w", path, err)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
