package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Saved states are a preamble and blocks. The preamble has a magic text, the version of the format,
// and a checksum. A block has its kind, the length of its content, the content, and a checksum. The
// checksum includes the number of the block, so that a block that is missing, repeated or moved is
// noticed. A save begins with blockBegin and ends with blockEnd. The first save has all states, the
// saves after it have the states that changed.
//
// Integers of a fixed size are in little-endian order. The format includes how keys are hashed, the
// numbers of the algorithms, and their states: formatVersion must change with any of them.

// formatVersion is the version that Save writes, and the only version that Load reads.
const formatVersion = 2

const (
	magic        = "sluice\x1a\n"
	preambleSize = len(magic) + 4 + 4
)

// The kinds of blocks.
const (
	blockHead   = iota + 1 // the identity of the file, the secrets of the hashes, the number of stripes
	blockBegin             // the identity of the file, the number of the save, its time
	blockLimit             // the numbers of a limit
	blockStripe            // a stripe and the size of its table
	blockStates            // states of one stripe
	blockEnd               // the time of the save, and how many states it has
)

const (
	blockHeader = 1 + 4
	blockSum    = 4
	// fullBlock is the size at which a block of states is written. A block is larger than that by one
	// state at most, so no block exceeds mostBlock.
	fullBlock = 32 << 10
	mostBlock = 4 << 20
)

// fileID is the identity of a file: all its saves repeat it.
type fileID [16]byte

var (
	// ErrForeign means that what Load has read is something else than saved states.
	ErrForeign = errors.New("memory: this is something else than saved states")
	// ErrVersion means that a version of this package with another format has saved the states.
	ErrVersion = errors.New("memory: another version of Sluice has saved these states")
	// ErrDamaged means that saved states are incomplete, or that a part of them has changed.
	ErrDamaged = errors.New("memory: the saved states are damaged")
	// ErrNoRoom means that saved states need more memory than Options.MaxBytes.
	ErrNoRoom = errors.New("memory: the saved states need more than MaxBytes")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of a block with its header.
func sumOf(number uint64, block []byte) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], number)
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, block)
}

// blockWriter writes blocks, each with one call of Write.
type blockWriter struct {
	w      io.Writer
	number uint64 // of the next block
	bytes  int64  // written
}

// preamble writes the preamble.
func (b *blockWriter) preamble() error {
	p := append(make([]byte, 0, preambleSize), magic...)
	p = binary.LittleEndian.AppendUint32(p, formatVersion)
	p = binary.LittleEndian.AppendUint32(p, crc32.Checksum(p, castagnoli))
	return b.write(p)
}

func (b *blockWriter) write(p []byte) error {
	n, err := b.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err == nil {
		b.bytes += int64(n)
	}
	return err
}

// newBlock returns an empty block, in the memory of an earlier one.
func newBlock(kind byte, memory []byte) []byte { return append(memory[:0], kind, 0, 0, 0, 0) }

// put completes a block and writes it.
func (b *blockWriter) put(block []byte) error {
	binary.LittleEndian.PutUint32(block[1:], uint32(len(block)-blockHeader))
	block = binary.LittleEndian.AppendUint32(block, sumOf(b.number, block))
	if err := b.write(block); err != nil {
		return err
	}
	b.number++
	return nil
}

// blockReader reads blocks.
type blockReader struct {
	r      io.Reader
	number uint64
	block  []byte
}

func damaged(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, a...))
}

// preamble reads the preamble.
func (b *blockReader) preamble() error {
	var p [preambleSize]byte
	n, err := io.ReadFull(b.r, p[:])
	switch {
	case err != nil && !isEnd(err):
		return err
	case string(p[:min(n, len(magic))]) != magic[:min(n, len(magic))]:
		return ErrForeign
	case n < preambleSize:
		return damaged("they end after %d bytes", n)
	case binary.LittleEndian.Uint32(p[len(p)-4:]) != crc32.Checksum(p[:len(p)-4], castagnoli):
		return damaged("the checksum of the first bytes is wrong")
	}
	if v := binary.LittleEndian.Uint32(p[len(magic):]); v != formatVersion {
		return fmt.Errorf("%w: their format is version %d, and this program reads version %d", ErrVersion, v, formatVersion)
	}
	return nil
}

// isEnd reports whether an error of io.ReadFull says that the input has ended.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// next returns the kind and the content of the next block. The error is io.EOF at the end of the
// input, if the input ends between two blocks.
func (b *blockReader) next() (kind byte, content []byte, err error) {
	b.block = append(b.block[:0], make([]byte, blockHeader)...)
	if n, err := io.ReadFull(b.r, b.block); err != nil {
		if n > 0 && isEnd(err) {
			err = damaged("they end in the header of block %d", b.number)
		}
		return 0, nil, err
	}
	length := binary.LittleEndian.Uint32(b.block[1:])
	if length > mostBlock {
		// Load looks at the first content, see checkTail.
		b.block = append(b.block, make([]byte, len(fileID{}))...)
		_, _ = io.ReadFull(b.r, b.block[blockHeader:]) // the error is the same if there is nothing more
		return 0, nil, damaged("block %d has an impossible length", b.number)
	}
	b.block = append(b.block, make([]byte, length+blockSum)...)
	if _, err := io.ReadFull(b.r, b.block[blockHeader:]); err != nil {
		if isEnd(err) {
			err = damaged("they end in block %d", b.number)
		}
		return 0, nil, err
	}
	end := len(b.block) - blockSum
	if binary.LittleEndian.Uint32(b.block[end:]) != sumOf(b.number, b.block[:end]) {
		return 0, nil, damaged("the checksum of block %d is wrong", b.number)
	}
	b.number++
	return b.block[0], b.block[blockHeader:end], nil
}

// fields reads the fields of a block. After the first field that is not there, failed is set, and
// all fields are zero.
type fields struct {
	rest   []byte
	failed bool
}

// take returns the next n bytes.
func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.failed = true
	}
	if f.failed {
		return nil
	}
	p := f.rest[:n]
	f.rest = f.rest[n:]
	return p
}

func (f *fields) byte() byte {
	if p := f.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (f *fields) word() uint64 {
	if p := f.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (f *fields) uvarint() uint64 {
	x, n := binary.Uvarint(f.rest)
	if f.take(n); f.failed || n == 0 {
		f.failed = true
		return 0
	}
	return x
}

func (f *fields) string() string {
	n := f.uvarint()
	if n > uint64(len(f.rest)) {
		f.failed = true
		return ""
	}
	return string(f.take(int(n)))
}

func (f *fields) id() (id fileID) {
	copy(id[:], f.take(len(id)))
	return id
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
