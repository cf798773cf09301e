package modelusage

// Scanner finds the usage in an answer that is written to it, piece by piece: a JSON body, or a stream of server-sent
// events. It holds back nothing, and its memory does not grow with the answer. It is an io.Writer for one goroutine.
//
// Only the members where the format has its usage count, and not the texts and objects that a model writes. The last usage
// of an answer is valid. In an answer that is not JSON, a usage counts if it came before the mistake.
type Scanner struct {
	format Format
	stream bool
	events events
}

// NewScanner returns a scanner for an answer in a format. stream is whether the answer is a stream of events: its
// Content-Type is text/event-stream. The stream of Gemini without alt=sse is a JSON array, so stream is false for it.
func NewScanner(f Format, stream bool) *Scanner {
	s := &Scanner{format: f, stream: stream}
	s.events.root = tree(f, stream)
	s.events.merges = f == AnthropicMessages
	s.events.reset()
	return s
}

// Write reads the next bytes of the answer. It returns len(p) and nil.
func (s *Scanner) Write(p []byte) (int, error) {
	e := &s.events
	if s.stream {
		ends := lines{-1, -1}
		for i := 0; i < len(p); {
			i = e.nextLine(p, i, &ends)
		}
		return len(p), nil
	}
	rest := p
	for len(rest) > 0 && e.inMark(rest[0]) {
		e.marked++
		rest = rest[1:]
	}
	if len(rest) > 0 {
		if e.marked > 0 && e.marked < len(mark) {
			e.fail()
		}
		e.marked = len(mark)
		e.write(rest)
	}
	return len(p), nil
}

// Usage returns the last usage that the answer has reported so far, and whether it has reported any.
func (s *Scanner) Usage() (u Usage, found bool) {
	if !s.events.found {
		return Usage{}, false
	}
	return s.events.latest.usage(s.format), true
}

// Events returns how many events of a stream have begun so far. Services write a token or more in nearly each of them, so a
// stream that reports no usage has had about as many tokens, or more.
func (s *Scanner) Events() int64 { return s.events.count }

// Complete reports whether the answer has ended as its format ends. A JSON body ends with its object or array. A stream
// ends with [DONE], message_stop, or response.completed, .incomplete or .failed. Gemini's stream ends with the event
// that has the reason why a candidate finished, or why the prompt was blocked.
func (s *Scanner) Complete() bool {
	if s.stream {
		return s.events.done || s.events.finished
	}
	return s.events.document.closed
}
