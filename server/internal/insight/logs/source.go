package logs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	chunk    = 256 << 10 // how much is read at once, and more than the longest line
	mostOpen = 16        // how many files are open from the beginning; further ones are opened when their time comes
)

// source is a file of a log.
type source struct {
	name    string
	index   int32
	stdin   io.Reader // instead of a file
	size    int64
	regular bool // it can be opened again
	paused  bool // it is closed until its time comes

	file *os.File
	zstd *zstd.Decoder
	in   io.Reader // what it is without compression
	read int64     // bytes of the file, before they are decompressed
	err  error

	buffer []byte
	kept   int    // bytes at the beginning of buffer: a line that is not complete
	text   string // complete lines that are not read yet
	line   int32  // the number of the last line
	long   string // the beginning of a line that is too long and has not ended
	cut    bool   // the last line was too long, and only its beginning is there

	parser parser
	newest int64 // the latest beginning of a request up to here
}

// open opens the file, and finds its compression.
func (s *source) open() error {
	s.paused = false
	raw := s.stdin
	if raw == nil {
		f, err := os.Open(s.name)
		if err != nil {
			return fmt.Errorf("logs: %w", err)
		}
		s.file, raw = f, f
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			s.size, s.regular = info.Size(), true
		}
	}
	in := bufio.NewReaderSize(counted{raw, &s.read}, 64<<10)
	magic, _ := in.Peek(4) // an error comes again from the reader
	var err error
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		s.in, err = gzip.NewReader(in)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		s.zstd, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		s.in = s.zstd
	default:
		s.in = in
	}
	if err != nil {
		return fmt.Errorf("logs: %s: %w", s.name, err)
	}
	if s.buffer == nil {
		s.buffer = make([]byte, chunk)
	}
	return nil
}

// counted counts the bytes of a reader.
type counted struct {
	io.Reader
	n *int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	*c.n += int64(n)
	return n, err
}

func (s *source) close() error {
	if s.zstd != nil {
		s.zstd.Close()
		s.zstd = nil
	}
	s.buffer, s.in = nil, nil
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// pause closes a file whose first chunk was read. Its text remains until it is known when the file is needed.
func (s *source) pause() error {
	const enough = 16 << 10
	if len(s.text) > enough {
		s.text = strings.Clone(s.text[:strings.LastIndexByte(s.text[:enough], '\n')+1])
	}
	s.paused, s.kept, s.read, s.long = true, 0, 0, ""
	return s.close()
}

// next returns the next line, without its end. At the end, and after an error, it returns false.
func (s *source) next() (string, bool) {
	if s.text == "" && s.long == "" && !s.fill() {
		return "", false
	}
	s.line++
	s.cut = s.long != ""
	if s.cut {
		line := s.long
		s.long = ""
		return line, true
	}
	line := s.text
	if i := strings.IndexByte(s.text, '\n'); i >= 0 {
		line, s.text = s.text[:i], s.text[i+1:]
	} else {
		s.text = ""
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, true
}

// fill reads complete lines, or the beginning of one that is too long. It returns false at the end, and after an error.
func (s *source) fill() bool {
	if s.in == nil || s.err != nil {
		return false
	}
	n, from, skipping := s.kept, 0, false
	s.kept = 0
	for {
		if i := bytes.LastIndexByte(s.buffer[from:n], '\n'); i >= 0 {
			end := from + i + 1
			if skipping {
				end = bytes.IndexByte(s.buffer[:n], '\n') + 1
			} else {
				s.text = string(s.buffer[:end])
			}
			s.kept = copy(s.buffer, s.buffer[end:n])
			return true
		}
		if n == len(s.buffer) {
			if !skipping {
				s.long, skipping = string(s.buffer[:1024]), true
			}
			n = 0
		}
		from = n
		m, err := s.in.Read(s.buffer[n:])
		n += m
		if m == 0 && err != nil {
			if err != io.EOF { //nolint:errorlint // readers return io.EOF itself at their end
				s.err = fmt.Errorf("logs: %s: %w", s.name, err)
				return skipping || n > 0 && s.last(n)
			}
			s.in = nil
			return skipping || n > 0 && s.last(n)
		}
	}
}

// last makes a line of the text without an end.
func (s *source) last(n int) bool {
	s.text = string(s.buffer[:n])
	return true
}

func remove(files []*source, s *source) []*source {
	return slices.DeleteFunc(files, func(f *source) bool { return f == s })
}

// sample returns the first lines of a text.
func sample(text string) []string {
	const most = 200
	lines := strings.SplitN(text, "\n", most+1)
	return lines[:min(len(lines), most)]
}
