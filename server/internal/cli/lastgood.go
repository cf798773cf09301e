package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/writable"
)

// lastGood keeps a copy of the last configuration that ran.
type lastGood string

// mostCopy bounds a copy: a file and the files that it names, in the form of JSON.
const mostCopy = 256 << 20

// load reads the copy, and when it was saved.
func (path lastGood) load() (*config.File, time.Time, error) {
	info, err := os.Stat(string(path))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("the last good configuration: %w", err)
	}
	if info.Size() > mostCopy {
		return nil, time.Time{}, fmt.Errorf("the last good configuration: %s has %d bytes, which no copy has; remove it", path, info.Size())
	}
	text, err := os.ReadFile(string(path))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("the last good configuration: %w", err)
	}
	return config.ParseCopy(string(path), text)
}

// save replaces the copy. A reader finds the old copy or the new one, whenever the program or the machine stops. Only
// the user of the program can read it, because a configuration may contain a token.
func (path lastGood) save(f *config.File) error {
	text, err := f.Copy()
	if err != nil {
		return err
	}
	if err := path.clean(); err != nil {
		return err
	}
	next, err := os.OpenFile(string(path)+newCopy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("the last good configuration cannot be saved: %w", err)
	}
	defer os.Remove(next.Name()) // it is gone if all went well
	_, err = next.Write(text)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), string(path))
	}
	if err != nil {
		return fmt.Errorf("the last good configuration cannot be saved: %w", err)
	}
	return nil
}

// newCopy ends the name of a copy that is being written. The name is always the same, so a killed program leaves one
// such file at most, and the next start removes it.
const newCopy = ".new"

// clean removes what a killed program has left.
func (path lastGood) clean() error {
	if err := os.Remove(string(path) + newCopy); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the last good configuration cannot be saved: %w", err)
	}
	return nil
}

// check returns why no copy could be kept, without changing anything.
func (path lastGood) check(quickStart bool) error {
	switch {
	case path == "":
		return nil
	case quickStart:
		return errors.New("last-good is given, and there is no configuration to keep; give a FILE, or remove it")
	}
	if err := errors.Join(path.checkTarget(), (path + newCopy).checkTarget()); err != nil {
		return err
	}
	if err := errors.Join(writable.Folder(filepath.Dir(string(path))), writable.File(string(path))); err != nil {
		return fmt.Errorf("the last good configuration cannot be saved: %w", err)
	}
	return nil
}

// checkTarget returns an error if a file is there that is not a copy, such as the configuration itself: saving would
// destroy it. A copy that is cut off is not worth keeping.
func (path lastGood) checkTarget() error {
	file, err := os.Open(string(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the last good configuration: %w", err)
	}
	defer file.Close()
	begin := make([]byte, len(copyBegin))
	n, err := io.ReadFull(file, begin)
	if (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && string(begin[:n]) == copyBegin[:n] {
		return nil
	}
	return fmt.Errorf("the last good configuration: %s is another file, which a copy would replace; give last-good a path of its own, or remove the file", path)
}

// copyBegin is how each copy begins, whatever its version.
const copyBegin = `{"format":"sluice-configuration-`

// earlier is a copy that the server starts with: when it was saved, and why the current configuration is refused.
type earlier struct {
	saved   time.Time
	refused error // nil if the current configuration is in use
}

// loadOrLast reads and checks the configuration. If it is bad, and there is a copy of the last good one, it returns the
// copy. After an error it returns the configuration too, if only the check found mistakes.
func (s *settings) loadOrLast() (f *config.File, quickStart bool, e earlier, err error) {
	f, quickStart, err = s.load()
	if err == nil {
		err = app.Check(s.options(f))
	}
	if err == nil || s.lastGood == "" || s.config == "" && s.envoyFolder() == "" {
		return f, quickStart, e, err
	}
	last, saved, refused := lastGood(s.lastGood).load()
	switch {
	case errors.Is(refused, fs.ErrNotExist):
		return f, false, e, err // it never ran
	case refused == nil:
		if refused = s.override(last); refused == nil {
			refused = app.Check(s.options(last))
		}
	}
	if refused != nil {
		return f, false, e, errors.Join(err, refused)
	}
	return last, false, earlier{saved, err}, nil
}
