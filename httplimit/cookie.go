package httplimit

import (
	"strings"

	"github.com/sluicehq/sluice/policy"
)

// readCookie reads a cookie. It adds all values to all, unless all is nil.
//
// Services end a cookie at a semicolon. Some end it at a space or comma too, and some not within quotes. A
// value that only some of them read makes the result unclear.
func (v values) readCookie(name string, all *[]string) policy.Found {
	lines := v.r.Header["Cookie"]
	if len(lines) == 0 {
		return policy.Found{}
	}
	t := tally{all: all}
	for _, line := range lines {
		for line != "" {
			var piece string
			piece, line, _ = strings.Cut(line, ";")
			key, value, _ := strings.Cut(piece, "=")
			key = strings.Trim(key, " \t")
			switch {
			case key == name:
				t.add(strings.Trim(value, " \t"), false)
			case isSameName(key, name):
				t.add(strings.Trim(value, " \t"), true)
			}
			t.addHidden(piece, name)
		}
	}
	return t.result()
}

// addHidden adds cookies of the name within the value of another cookie, as in "a=1, name=2".
func (t *tally) addHidden(piece, name string) {
	for {
		at := strings.LastIndexAny(piece, " \t,\"")
		if at < 0 {
			return
		}
		hidden := piece[at+1:]
		piece = piece[:at]
		if len(hidden) > len(name) && hidden[len(name)] == '=' && hidden[:len(name)] == name && strings.IndexByte(piece, '=') >= 0 {
			t.add(hidden[len(name)+1:], true)
		}
	}
}
