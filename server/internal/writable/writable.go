// Package writable reports whether this program may write files. It changes nothing: it makes no file and opens none.
package writable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mostLinks bounds the symbolic links that are followed.
const mostLinks = 40

// File returns why this program may neither write the file at a path nor make it.
func File(path string) error {
	for range mostLinks {
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			return fmt.Errorf("%s is a folder; give the path of a file", path)
		case err == nil:
			return allowed(path, toWrite)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		target, err := os.Readlink(path)
		if err != nil { // there is no file, and no link to one
			return Folder(filepath.Dir(path))
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return fmt.Errorf("%s is a link that leads through more than %d others", path, mostLinks)
}

// Full reports whether a write failed because there is no room: that can end by itself, while other errors are mistakes.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Folder returns why this program may not make and replace files in a folder.
func Folder(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %s does not exist; make it, and let this program write there", path)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; give a path in a folder", path)
	}
	return allowed(path, toMake)
}
