package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// mostOpen is how many files are open from the beginning. Further ones are opened when their time comes.
const mostOpen = 16

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

	chunks *chunks
	chunk  *chunk
	at     uint32 // where the next line begins in the chunk
	end    uint32 // where complete lines end
	filled uint32 // how much of the chunk is read
	line   int32  // the number of the last line
	long   string // the beginning of the next line, if it is too long
	cut    string // the same of the last line

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
		var z *gzip.Reader
		z, err = gzip.NewReader(in)
		s.in = unpacked{z}
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		s.zstd, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		s.in = unpacked{s.zstd}
	default:
		s.in = in
	}
	if err != nil {
		return fmt.Errorf("logs: %s: %w", s.name, whole(err))
	}
	return nil
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

// pause closes a file whose first chunk was read. Its beginning remains until it is known when the file is needed.
func (s *source) pause() error {
	if s.paused = true; s.chunk != nil {
		text := s.chunk.buffer[:min(s.end, 16<<10)]
		small := &chunk{buffer: bytes.Clone(text[:bytes.LastIndexByte(text, '\n')+1])}
		s.chunks.release(s.chunk)
		s.chunk, s.at, s.end = small, 0, uint32(len(small.buffer))
	}
	return s.close()
}

// forget ends the use of the chunk.
func (s *source) forget() {
	if s.chunk != nil && !s.paused {
		s.chunks.release(s.chunk)
	}
	s.chunk, s.at, s.end, s.filled, s.long, s.read = nil, 0, 0, 0, "", 0
}

// next returns where the next line is in the chunk, without its end. At the end, and after an error, it returns false.
func (s *source) next() (start, n uint32, ok bool) {
	if s.at == s.end && s.long == "" && !s.fill() {
		return 0, 0, false
	}
	s.line++
	if s.cut, s.long = s.long, ""; s.cut != "" {
		return 0, 0, true
	}
	start = s.at
	text := s.chunk.buffer[start:s.end]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
		s.at++
	}
	n = uint32(len(text))
	s.at += n
	if n > 0 && text[n-1] == '\r' {
		n--
	}
	return start, n, true
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
	s.chunk, s.at = c, 0
	for {
		m, err := io.ReadFull(s.in, c.buffer[n:])
		text := c.buffer[:n+m]
		n = 0
		if err != nil {
			s.in = nil
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				s.err = fmt.Errorf("logs: %s: %w", s.name, err)
			}
		}
		s.filled, s.end = uint32(len(text)), uint32(bytes.LastIndexByte(text, '\n')+1)
		found := s.end > 0
		if s.in == nil {
			s.end = s.filled // the last line may have no end
		}
		switch {
		case s.long == "" && (found || s.in == nil):
			return s.end > 0
		case s.long == "":
			s.long = string(text[:1024])
		case found:
			s.at = uint32(bytes.IndexByte(text, '\n') + 1)
			return true
		case s.in == nil:
			s.at = s.end
			return true
		}
	}
}

// sample returns the first lines of the chunk.
func (s *source) sample() []string {
	const most = 200
	var lines []string
	for text := s.chunk.line(s.at, s.end-s.at); text != "" && len(lines) < most; {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		lines = append(lines, strings.TrimSuffix(line, "\r"))
	}
	return lines
}
