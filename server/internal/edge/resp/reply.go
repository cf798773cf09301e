package resp

import "strconv"

// The functions append a reply to a buffer. The version of the protocol is 2 or 3.

func appendInt(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, ':'), n, 10), '\r', '\n')
}

func appendLength(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

func appendArray(b []byte, n int) []byte { return appendLength(b, '*', n) }

// appendMap begins a map of n pairs. RESP2 has no maps, and gets a list of keys and values.
func appendMap(b []byte, version, n int) []byte {
	if version == 3 {
		return appendLength(b, '%', n)
	}
	return appendLength(b, '*', 2*n)
}

func appendNull(b []byte, version int) []byte {
	if version == 3 {
		return append(b, "_\r\n"...)
	}
	return append(b, "$-1\r\n"...)
}

func appendSimple(b []byte, text string) []byte {
	return append(append(append(b, '+'), text...), '\r', '\n')
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	return append(append(appendLength(b, '$', len(text)), text...), '\r', '\n')
}

// longestError bounds the text of an error, which may have words of the client.
const longestError = 512

// appendError appends an error. The text begins with a code such as ERR.
func appendError(b []byte, text string) []byte {
	b = append(b, '-')
	for i := range min(len(text), longestError) {
		if c := text[i]; c < ' ' || c == 0x7f {
			b = append(b, '?') // a line break would end the reply
		} else {
			b = append(b, c)
		}
	}
	return append(b, '\r', '\n')
}

// longestShown bounds the words of a client in an error.
const longestShown = 64

// shown returns a word of a client for an error.
func shown(word []byte) string {
	if len(word) > longestShown {
		return string(word[:longestShown]) + "..."
	}
	return string(word)
}
