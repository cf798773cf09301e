package redistest

import (
	"fmt"
	"os"
)

// manyFiles is more than the files that a test has open at once.
const manyFiles = 1100

// ReserveFiles makes the table of open files of this process so large that no test lets it grow. Linux doubles the table
// when a process opens its 256th file, its 512th, and so on. This takes some ten milliseconds, in which threads that open a
// file can do nothing else. A proxy has two files for each connection, so it would delay what a test measures.
// Call it in TestMain. It returns an error if the process may not open so many files.
func ReserveFiles() error {
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close() // it was only opened
		}
	}()
	for range manyFiles {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("redistest: cannot open %d files, as many as tests need: raise `ulimit -n`: %w", manyFiles, err)
		}
		open = append(open, f)
	}
	return nil
}
