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
			piece = strings.TrimRight(piece, " \t") // once, not for each cookie that is hidden in it
			key, value, _ := strings.Cut(piece, "=")
			key = strings.Trim(key, " \t")
			t.addNamed(key, value, name)
			t.addHidden(piece, name)
		}
	}
	return t.result()
}

// addNamed adds a cookie if it has the name.
func (t *tally) addNamed(key, value, name string) {
	switch {
	case key == name:
		t.add(strings.Trim(value, " \t"), false)
	case isSameName(bare(key), name):
		t.add(strings.Trim(value, " \t"), true)
	}
}

// addHidden adds cookies of the name that are part of another one for most services, as in "a=1, name=2"
// and ",name = 2".
func (t *tally) addHidden(piece, name string) {
	start := len(piece) - len(strings.TrimLeft(piece, " \t"))
	for rest := piece; ; {
		at := strings.LastIndexAny(rest, separators)
		if at < start {
			return // white space before the cookie itself
		}
		rest = piece[:at]
		t.addAt(piece[at+1:], name)
	}
}

// addAt adds the cookie that a text behind a separator begins with, if it has the name.
func (t *tally) addAt(text, name string) {
	value, found := cookieAt(text, name)
	if !found {
		return
	}
	t.add(value, true)
	if end := strings.IndexAny(value, separators); end > 0 {
		t.add(value[:end], true)
	}
}

// separators are the bytes at which only some services end a cookie.
const separators = " \t,\""

// cookieAt returns the value of the cookie that a text begins with, if it has the name.
func cookieAt(text, name string) (value string, ok bool) {
	if len(text) <= len(name) {
		return "", false
	}
	for i := range len(name) {
		if plainByte(text[i]) != plainByte(name[i]) {
			return "", false
		}
	}
	value, ok = strings.CutPrefix(strings.TrimLeft(text[len(name):], " \t"), "=")
	return strings.Trim(value, " \t"), ok
}

// bare returns the name of a cookie without the bytes around it that some services take for spaces.
func bare(key string) string {
	if key == "" || isVisible(key[0]) && isVisible(key[len(key)-1]) {
		return key
	}
	return strings.TrimFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

func isVisible(c byte) bool { return ' ' < c && c <= '~' }
