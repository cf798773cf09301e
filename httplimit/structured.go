package httplimit

// maxInteger is the largest Integer of a structured field, RFC 9651.
const maxInteger = 999_999_999_999_999

// appendString appends a String of RFC 9651. It holds printable ASCII alone: what
// else there is, line breaks above all, is percent-encoded.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
