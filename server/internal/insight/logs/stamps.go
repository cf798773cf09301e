package logs

import (
	"strings"
	"time"
)

// stamps reads times. It keeps the last one, because most lines have the time of the line before.
type stamps struct {
	last   string
	at     int64
	layout int // of the last time
	day    string
	blur   time.Duration // of the last time
}

// layouts are the forms of times, which are local without a zone. Package time reads a fraction behind the seconds of each.
var layouts = [...]string{
	"02/Jan/2006:15:04:05 Z0700", "02/Jan/2006:15:04:05", time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05 Z0700",
}

// parse reads a time in microseconds of Unix time: 10/Oct/2000:13:55:36 -0700, 2000-10-10T13:55:36Z, or a number of
// seconds, milliseconds, microseconds or nanoseconds. The size of the number says which it is. All may have a fraction.
func (s *stamps) parse(text string) (int64, bool) {
	const seconds = len("2000-10-10T13:55:36") // or more
	switch {
	case text == s.last:
		return s.at, true
	case len(text) < seconds || text[2] != '/' && text[4] != '-':
		return s.number(text)
	}
	for i := range layouts {
		layout := (s.layout + i) % len(layouts)
		t, err := time.ParseInLocation(layouts[layout], text, time.Local)
		if err != nil {
			continue
		}
		s.last, s.at, s.layout = strings.Clone(text), t.UnixMicro(), layout
		rest := strings.TrimLeft(text[seconds:], digits)
		s.blur = time.Second
		if rest != "" && (rest[0] == '.' || rest[0] == ',') {
			s.blur = blurOf(len(rest) - 1 - len(strings.TrimLeft(rest[1:], digits)))
		}
		return s.at, true
	}
	return 0, false
}

const digits = "0123456789"

// blurOf returns how exact a fraction of a second with so many digits is.
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

// number reads a count of seconds, milliseconds, microseconds or nanoseconds since 1970.
func (s *stamps) number(text string) (int64, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(whole) < 9 || strings.ContainsAny(text, "eE") {
		return 0, false
	}
	thousands := min((len(whole)-9)/3, 3)
	s.blur = blurOf(3*thousands + len(fraction))
	return decimal(text, 6-3*thousands)
}
