package memory

import "math/bits"

// slab holds the states that do not fit into an entry, as blocks of words in pointer-free chunks.
// The sizes of blocks are powers of two. Free blocks are linked through their first word.
type slab struct {
	chunks [][]uint64
	spare  []uint32 // unused indexes in chunks
	free   [blockClasses]uint64
	tail   int // first unused word of the last small chunk
	last   int // index of the last small chunk, -1 for none
	bytes  int64
	live   int // blocks in use
}

const (
	smallestBlock = 2  // 4 words
	blockClasses  = 19 // up to 2^18 words
	firstChunk    = 1 << 9
	largestChunk  = 1 << 13
)

// A ref is a block's position plus one: zero means none.
func makeRef(chunk, offset int) uint64 { return uint64(chunk)<<32 | uint64(offset+1) }

func splitRef(ref uint64) (chunk, offset int) { return int(ref >> 32), int(ref&0xffffffff) - 1 }

// blockClass returns the class of the smallest block that holds this many words.
func blockClass(words int) int {
	return max(smallestBlock, bits.Len(uint(words-1)))
}

// block returns the words of a block of this class.
func (s *slab) block(ref uint64, class int) []uint64 {
	chunk, offset := splitRef(ref)
	return s.chunks[chunk][offset : offset+1<<class : offset+1<<class]
}

// need returns by how many bytes the slab grows if it hands out a block of a class.
func (s *slab) need(class int) int64 {
	switch words := 1 << class; {
	case s.free[class] != 0:
		return 0
	case words > largestChunk/2:
		return int64(words) * 8
	case s.last >= 0 && s.tail+words <= len(s.chunks[s.last]):
		return 0
	default:
		return int64(s.nextChunk(words)) * 8
	}
}

// nextChunk returns the size of the next small chunk in words: twice the last one, up to
// largestChunk.
func (s *slab) nextChunk(words int) int {
	n := firstChunk
	if s.last >= 0 {
		n = min(2*len(s.chunks[s.last]), largestChunk)
	}
	for n < words {
		n *= 2
	}
	return n
}

// take hands out a block of a class, all zeros.
func (s *slab) take(class int) uint64 {
	words := 1 << class
	s.live++
	if ref := s.free[class]; ref != 0 {
		b := s.block(ref, class)
		s.free[class] = b[0]
		clear(b)
		return ref
	}
	if words > largestChunk/2 {
		return makeRef(s.addChunk(words), 0)
	}
	if s.last < 0 || s.tail+words > len(s.chunks[s.last]) {
		n := s.nextChunk(words)
		s.last, s.tail = s.addChunk(n), 0
	}
	ref := makeRef(s.last, s.tail)
	s.tail += words
	return ref
}

func (s *slab) addChunk(words int) int {
	s.bytes += int64(words) * 8
	c := make([]uint64, words)
	if n := len(s.spare); n > 0 {
		i := int(s.spare[n-1])
		s.spare = s.spare[:n-1]
		s.chunks[i] = c
		return i
	}
	s.chunks = append(s.chunks, c)
	return len(s.chunks) - 1
}

// give takes a block back and returns by how many bytes the slab shrank. A block with a chunk of
// its own is released to the garbage collector.
func (s *slab) give(ref uint64, class int) int64 {
	if s.live--; s.live == 0 && s.bytes > 8*largestChunk {
		// No block is in use: release the chunks, because another limit, with states of another
		// size, may need the memory.
		n := s.bytes
		*s = slab{last: -1}
		return n
	}
	if 1<<class > largestChunk/2 {
		chunk, _ := splitRef(ref)
		n := int64(len(s.chunks[chunk])) * 8
		s.chunks[chunk] = nil
		s.spare = append(s.spare, uint32(chunk))
		s.bytes -= n
		return n
	}
	s.block(ref, class)[0] = s.free[class]
	s.free[class] = ref
	return 0
}
