package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// mostOpen is how many files are open from the beginning. Further ones are opened when their time comes.
const mostOpen = 16

// sampled is how much of a file shows its format and its first request.
const sampled = 32 << 10

// source is a file of a log.
type source struct {
	name    string
	index   int32
	stdin   io.Reader // instead of a file
	size    int64
	regular bool // it can be opened again

	file *os.File // nil while it is closed
	zstd *zstd.Decoder
	in   *bufio.Reader // what it is without compression; nil at its end
	read int64         // bytes of the file, before they are decompressed
	err  error

	sample []string // the first lines

	chunks *chunks
	chunk  *chunk
	text   string // complete lines of the chunk that were not given
	end    uint32 // where complete lines end
	filled uint32 // how much of the chunk is read
	cut    bool   // the chunk has only the beginning of a line that is too long
	line   int32  // the number of the last line

	parser parser
	newest int64 // the latest beginning of a request up to here
}

// open opens the file, and finds its compression.
func (s *source) open() error {
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
	s.read = 0
	s.in = bufio.NewReaderSize(counted{raw, &s.read}, 64<<10)
	magic, _ := s.in.Peek(4) // an error comes again from the reader
	var text io.Reader
	var err error
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		text, err = gzip.NewReader(s.in)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		s.zstd, err = zstd.NewReader(s.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		text = s.zstd
	case slices.ContainsFunc([]string{"PK\x03\x04", "\xfd7zX", "BZh"}, func(other string) bool { return strings.HasPrefix(string(magic), other) }):
		err = errors.New("it is a file of zip, xz or bzip2; unpack it, or give - the output of unzip -p, xz -dc or bzip2 -dc")
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("logs: %s: %w", s.name, whole(err))
	}
	s.in = bufio.NewReaderSize(unpacked{text}, sampled)
	return nil
}

// look puts the first lines into the sample. They are read again. A file whose time has not come is closed if there are many.
func (s *source) look() error {
	text, err := s.in.Peek(sampled)
	switch {
	case err == nil:
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	case err != io.EOF:
		return fmt.Errorf("logs: %s: %w", s.name, err)
	}
	for line := range strings.Lines(string(text)) {
		s.sample = append(s.sample, strings.TrimRight(line, "\r\n"))
	}
	if s.index < mostOpen || !s.regular {
		return nil
	}
	return s.close()
}

// whole names the end of a compressed file that comes too early, which is not the end of the log.
func whole(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the compressed file ends in the middle; copy it again, or give what gzip -dc or zstd -dc unpacks of it")
	}
	return err
}

// unpacked reads what a decompressor unpacks.
type unpacked struct{ io.Reader }

func (u unpacked) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	return n, whole(err)
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
	s.in = nil
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// next returns the next line, without its end, and where it is in the chunk. At the end, and after an error, it returns false.
func (s *source) next() (line string, start uint32, ok bool) {
	if s.text == "" && !s.fill() {
		return "", 0, false
	}
	s.line++
	start = s.end - uint32(len(s.text))
	line, s.text, _ = strings.Cut(s.text, "\n")
	return strings.TrimSuffix(line, "\r"), start, true
}

// fill reads complete lines, or the beginning of one that is too long. It returns false at the end, and after an error.
func (s *source) fill() bool {
	if s.in == nil {
		return false
	}
	c, n := s.chunks.take(s), 0
	if s.chunk != nil {
		n = copy(c.buffer, s.chunk.buffer[s.end:s.filled])
		s.chunks.release(s.chunk)
	}
	s.chunk = c
	m, err := io.ReadFull(s.in, c.buffer[n:])
	s.filled = uint32(n + m)
	s.end = uint32(bytes.LastIndexByte(c.buffer[:s.filled], '\n') + 1)
	if s.cut = s.end == 0 && err == nil; s.cut {
		s.filled, s.end = 1024, 1024
		for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
			_, err = s.in.ReadSlice('\n')
		}
	}
	if err != nil {
		s.in, s.end = nil, s.filled // the last line may have no end
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			s.err = fmt.Errorf("logs: %s: %w", s.name, err)
		}
	}
	s.text = c.line(0, s.end)
	return s.end > 0
}
