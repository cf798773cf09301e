package modelusage

import "io"

// mostHeld is the most bytes that a Trimmer holds back. A longer event is not the extra event.
const mostHeld = 16 << 10

// Trimmer passes a stream of OpenAI's events on to a writer, byte for byte, without the event that AddIncludeUsage adds:
// the chunk with a usage and without choices. It is an io.WriteCloser for one goroutine.
type Trimmer struct {
	to      io.Writer
	events  events
	held    []byte // the first bytes of the event in progress, from earlier calls of Write
	holds   bool   // the bytes of the event in progress are held back
	decided bool   // the event in progress is not the extra event
	removed bool   // the extra event has just ended in a CR
}

// NewTrimmer returns a trimmer that passes on to a writer.
func NewTrimmer(to io.Writer) *Trimmer {
	t := &Trimmer{to: to}
	t.events.root = trimmed
	t.events.reset()
	return t
}

// Write passes on the bytes of p that cannot belong to the extra event. It holds back at most one event, until its choices
// have come, and at most 16 KiB. It returns the error of the writer, after which the trimmer is of no use.
func (t *Trimmer) Write(p []byte) (int, error) {
	e, ends := &t.events, lines{-1, -1}
	from := 0  // p[:from] is passed on, or removed
	start := 0 // p[start:] is held back if t.holds
	for i := 0; i < len(p); {
		first := i
		follows := e.isCR && p[i] == '\n'
		begins := e.line == 0 && !e.inMark(p[i]) && p[i] != ':' && p[i] != '\n' && p[i] != '\r'
		i = e.nextLine(p, i, &ends)
		if follows {
			if t.removed {
				if err := t.pass(p[from:first]); err != nil {
					return from, err
				}
				from, t.removed = i, false
			}
			continue
		}
		t.removed = false
		if begins && !t.holds && !t.decided {
			t.holds, start = true, first
		}
		size := len(t.held) + i - start
		switch {
		case !t.holds:
		case e.over && t.isExtra():
			if err := t.pass(p[from:start]); err != nil {
				return from, err
			}
			from, t.held, t.holds, t.removed = i, t.held[:0], false, e.isCR
		case e.over || size > mostHeld || e.document.choice || e.document.closed && !t.isExtra() || e.state == isBroken:
			if err := t.pass(t.held); err != nil {
				return from, err
			}
			t.held, t.holds, t.decided = t.held[:0], false, true
		}
		if e.over {
			t.decided = false
		}
	}
	passed := len(p)
	if t.holds {
		passed = start
		t.held = append(t.held, p[start:]...)
	}
	if err := t.pass(p[from:passed]); err != nil {
		return from, err
	}
	return len(p), nil
}

// isExtra reports whether the event in progress is the extra event, if it has ended.
func (t *Trimmer) isExtra() bool {
	d := &t.events.document
	return d.closed && d.usage && d.choices && !d.choice
}

// pass passes on bytes.
func (t *Trimmer) pass(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := t.to.Write(p)
	if err == nil && n < len(p) {
		return io.ErrShortWrite
	}
	return err
}

// Close passes on what is held back, after the last Write. It does not close the writer.
func (t *Trimmer) Close() error {
	held := t.held
	t.held = nil
	if t.isExtra() {
		return nil
	}
	return t.pass(held)
}
