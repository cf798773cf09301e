package logs

import "unsafe"

// size is how much is read at once, and more than the longest line.
const size = 256 << 10

// chunk is a part of a file with complete lines. It is used again when its records have left.
type chunk struct {
	buffer []byte
	source *source
	index  int32
	users  int32 // records that wait or were given last, and the source that reads it
}

// line returns a part of the chunk. It is valid as long as the chunk has users.
func (c *chunk) line(start, n uint32) string {
	return unsafe.String(unsafe.SliceData(c.buffer[start:start+n]), n) //nolint:gosec // a copy of each line costs as much as all else
}

// chunks has all chunks of a reader.
type chunks struct {
	all  []*chunk
	free []*chunk
}

// take returns a chunk that the source uses.
func (cs *chunks) take(s *source) *chunk {
	n := len(cs.free)
	if n == 0 {
		cs.free = append(cs.free, &chunk{buffer: make([]byte, size), index: int32(len(cs.all))})
		cs.all = append(cs.all, cs.free[0])
		n = 1
	}
	c := cs.free[n-1]
	cs.free = cs.free[:n-1]
	c.source, c.users = s, 1
	return c
}

// release ends a use of a chunk.
func (cs *chunks) release(c *chunk) {
	if c.users--; c.users == 0 {
		cs.free = append(cs.free, c)
	}
}
