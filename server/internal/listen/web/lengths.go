package web

import "bytes"

// LengthCount counts the lines that begin as a Content-Length header does. The zero LengthCount has seen nothing. It is
// not safe for concurrent use.
type LengthCount struct {
	n       int
	matched int // how many bytes of lengthLine came last
}

// lengthLine is the beginning of such a line, in lower case.
const lengthLine = "\ncontent-length"

// Scan counts the lines in what has arrived, and returns how many there were since the beginning.
func (c *LengthCount) Scan(p []byte) int {
	for len(p) > 0 {
		if c.matched == 0 {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				break
			}
			c.matched, p = 1, p[i+1:]
			continue
		}
		b := p[0]
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		if b != lengthLine[c.matched] {
			c.matched = 0 // and the byte may be a line end
			continue
		}
		p = p[1:]
		if c.matched++; c.matched == len(lengthLine) {
			c.n, c.matched = c.n+1, 0
		}
	}
	return c.n
}

// Count returns how many lines there were since the beginning.
func (c *LengthCount) Count() int { return c.n }

// skip forgets the beginning of a line, because what arrives next is not scanned.
func (c *LengthCount) skip() { c.matched = 0 }
