package sampled

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostLogged bounds the bytes of a text that others influence, in the log.
const mostLogged = 256

// Brief returns a text for the log: at most 256 bytes, printable, and without what the text quotes, which may come
// from a request.
func Brief(text string) string {
	var b strings.Builder
	quoted, escaped := false, false
	for _, r := range text[:min(len(text), 16*mostLogged)] {
		switch {
		case quoted && (escaped || r == '\\'):
			escaped = !escaped
			continue
		case r == '"':
			if quoted = !quoted; !quoted {
				continue
			}
			r = '…'
		case quoted:
			continue
		case r == '\\', r == utf8.RuneError, !unicode.IsPrint(r):
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) > mostLogged-len("…") {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
