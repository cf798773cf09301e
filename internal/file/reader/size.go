package reader

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file of at most MaxFileSize bytes. The error about a larger file is an Errors.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, err
	}
	size := fmt.Sprintf("more than %d", MaxFileSize) // of a pipe
	if info, err := f.Stat(); err == nil && info.Size() > MaxFileSize {
		size = fmt.Sprint(info.Size())
	}
	return data, CheckSize(path, data, size)
}

// CheckSize reports a text that is too large, and has so many bytes.
func CheckSize(name string, data []byte, size string) error {
	if len(data) <= MaxFileSize {
		return nil
	}
	s := New(name, nil)
	s.ReportAt(Pos{}, "", fmt.Sprintf("the file has %s bytes; the most is %d", size, MaxFileSize), "split the rules over several servers, or shorten them")
	return s.Err()
}
