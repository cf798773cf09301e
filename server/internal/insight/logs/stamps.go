package logs

import (
	"strings"
	"time"
)

// stamps reads times. It keeps the last second, because most lines have the second of the line before.
type stamps struct {
	last   string // day and time of day to the second, as the log has them
	second int64  // what they are in UTC, in Unix time
	local  int64  // the offset of the local zone then, in seconds
	zoned  string // a zone as the log has it
	offset int64  // what it is, in seconds
	day    string
	blur   time.Duration // of the last time that was read
}

// parse reads a time in microseconds of Unix time: 10/Oct/2000:13:55:36 -0700, 2000-10-10T13:55:36Z, or a number of
// seconds, milliseconds, microseconds or nanoseconds. The size of the number says which it is. All may have a fraction.
// A time without a zone is local.
func (s *stamps) parse(text string) (int64, bool) {
	n := len("10/Oct/2000:13:55:36")
	if len(text) < n || text[2] != '/' {
		n--
		if len(text) < n || text[4] != '-' {
			return s.number(text)
		}
	}
	if s.last != text[:n] && !s.learn(text[:n]) {
		return 0, false
	}
	at := s.second * micros
	rest := text[n:]
	s.blur = time.Second
	if rest != "" && (rest[0] == '.' || rest[0] == ',') {
		i, unit := 1, int64(micros/10)
		for ; i < len(rest) && rest[i]-'0' < 10; i++ {
			at += int64(rest[i]-'0') * unit
			unit /= 10
		}
		s.blur = blurOf(i - 1)
		rest = rest[i:]
	}
	if rest == "" {
		return at - s.local*micros, true
	}
	if rest[0] == ' ' {
		rest = rest[1:]
	}
	offset, ok := s.zone(rest)
	return at - offset*micros, ok
}

// blurOf returns how exact a fraction with so many digits is.
func blurOf(digits int) time.Duration {
	switch {
	case digits == 0:
		return time.Second
	case digits < 6:
		return time.Millisecond
	default:
		return 0
	}
}

// zone returns the offset of Z, -0700 and -07:00 in seconds.
func (s *stamps) zone(text string) (int64, bool) {
	if text == s.zoned {
		return s.offset, true
	}
	for _, layout := range [...]string{"Z0700", "Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			_, offset := t.Zone()
			s.zoned, s.offset = strings.Clone(text), int64(offset)
			return s.offset, true
		}
	}
	return 0, false
}

// learn reads a second.
func (s *stamps) learn(text string) bool {
	layout := "2006-01-02T15:04:05"
	switch {
	case text[2] == '/':
		layout = "02/Jan/2006:15:04:05"
	case text[10] == ' ':
		layout = "2006-01-02 15:04:05"
	}
	t, err := time.Parse(layout, text)
	if err != nil {
		return false
	}
	_, local := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.Local).Zone()
	s.last, s.second, s.local = strings.Clone(text), t.Unix(), int64(local)
	return true
}

// number reads a count of seconds, milliseconds, microseconds or nanoseconds since 1970.
func (s *stamps) number(text string) (int64, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	switch {
	case len(whole) < 9 || strings.ContainsAny(text, "eE"):
		return 0, false
	case len(whole) < 12:
		s.blur = blurOf(len(fraction))
		return decimal(text, 6)
	case len(whole) < 15:
		s.blur = blurOf(len(fraction) + 3)
		return decimal(text, 3)
	case len(whole) < 18:
		s.blur = 0
		return decimal(text, 0)
	default:
		s.blur = 0
		return decimal(whole[:len(whole)-3], 0)
	}
}
