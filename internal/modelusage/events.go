package modelusage

import "bytes"

// The states of a line of events: how much of its field has come. Below fieldData, they count the letters of "data".
const (
	fieldData  = 4 + iota // "data"
	fieldColon            // "data:"
	fieldValue            // "data:", and a space if there is one
	fieldOther            // another field, or a comment
)

// lastData begins the data of the last event of OpenAI's streams. It is not JSON.
const lastData = "[DONE]"

// mark is the byte order mark of UTF-8, which services may send first.
const mark = "\xef\xbb\xbf"

// events reads a stream of server-sent events, line by line, and gives the data of each event to its reader as one text.
// Lines end in LF, CR LF or CR.
type events struct {
	reader
	line    uint8 // the state of the line in progress
	marked  int   // how much of the mark has come; all of it after the first other byte
	isCR    bool  // the byte before is a CR, so a LF belongs to it
	hasData bool  // the event has a line of data
	over    bool  // the line before has ended the event
	last    int   // how much of lastData the data has; -1 if it is other data
	done    bool  // an event had lastData
	count   int64 // of events with data
}

// lines are the ends of lines in a piece. Each search goes on until it finds one, so a piece is searched once.
type lines struct{ lf, cr int }

// end returns the index of the first end of a line at or after p[i], or len(p).
func (l *lines) end(p []byte, i int) int {
	if l.lf < i {
		l.lf = indexFrom(p, i, '\n')
	}
	if l.cr < i {
		l.cr = indexFrom(p, i, '\r')
	}
	return min(l.lf, l.cr)
}

// indexFrom returns the index of the first c at or after p[i], or len(p).
func indexFrom(p []byte, i int, c byte) int {
	if n := bytes.IndexByte(p[i:], c); n >= 0 {
		return i + n
	}
	return len(p)
}

// nextLine reads from p[i] to the end of the line or of p, and returns the index after it. over is set if an event has
// ended; the reader has what the event reported until the next call.
func (e *events) nextLine(p []byte, i int, l *lines) int {
	if e.isCR {
		e.isCR = false
		if p[i] == '\n' {
			return i + 1
		}
	}
	if e.over {
		e.over, e.hasData, e.last = false, false, 0
		e.reset()
	}
	if e.inMark(p[i]) {
		e.marked++
		return i + 1
	}
	if e.marked > 0 && e.marked < len(mark) {
		e.line = fieldOther
	}
	e.marked = len(mark)
	end := l.end(p, i)
	e.readLine(p[i:end])
	if end == len(p) {
		return end
	}
	if e.line == fieldData {
		e.beginData()
	}
	e.isCR = p[end] == '\r'
	e.over = e.line == 0
	e.line = 0
	return end + 1
}

// beginData begins a line of data. The lines of data of an event are one text.
func (e *events) beginData() {
	if e.hasData {
		e.write([]byte{'\n'})
		e.last = -1
	} else {
		e.count++
	}
	e.hasData = true
}

// inMark reports whether the next byte belongs to the mark.
func (e *events) inMark(c byte) bool { return e.marked < len(mark) && c == mark[e.marked] }

// readLine reads a part of a line.
func (e *events) readLine(p []byte) {
	for len(p) > 0 && e.line < fieldValue {
		c := p[0]
		switch {
		case e.line == fieldColon:
			if e.line = fieldValue; c != ' ' {
				continue
			}
		case e.line == fieldData && c == ':':
			e.line = fieldColon
			e.beginData()
		case e.line < fieldData && c == "data"[e.line]:
			e.line++
		default:
			e.line = fieldOther
			return
		}
		p = p[1:]
	}
	if len(p) == 0 || e.line != fieldValue {
		return
	}
	for i := 0; e.last >= 0 && i < len(p); i++ {
		switch {
		case p[i] != lastData[e.last]:
			e.last = -1
		case e.last == len(lastData)-1:
			e.done, e.last = true, -1
		default:
			e.last++
		}
	}
	e.write(p)
}
