package modelusage

// Scanner finds the usage in an answer that is written to it, piece by piece: a JSON body, or a stream of server-sent
// events. Its memory does not grow with the answer. It is an io.Writer for one goroutine.
type Scanner struct {
	format Format
	stream bool
}

// NewScanner returns a scanner for an answer in a format. stream is whether the answer is a stream of events: its
// Content-Type is text/event-stream. The stream of Gemini without alt=sse is a JSON array, so stream is false for it.
func NewScanner(f Format, stream bool) *Scanner { return &Scanner{format: f, stream: stream} }

// Write reads the next bytes of the answer. It returns len(p) and nil.
func (s *Scanner) Write(p []byte) (int, error) { return len(p), nil }

// Usage returns the last usage that the answer has reported so far, and whether it has reported any.
func (s *Scanner) Usage() (u Usage, found bool) { return Usage{}, false }

// Complete reports whether the answer has ended as its format ends.
func (s *Scanner) Complete() bool { return false }
