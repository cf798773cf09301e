package spelling

import "strings"

// Cookie returns the value of a cookie in one spelling: without quotes and spaces around it, and with
// %61 decoded to a. Many services do the same, and would otherwise give one session several keys.
//
// certain is false for a value with quotes, backslashes, spaces or commas in it: some services end the value
// there, and some decode them. Nor is a value certain with bytes other than printable ASCII: some services
// take them for spaces. Nor is a signed token whose base64 is not in its one valid form, or has other escapes in
// it than of base64: decoders drop the percent sign of an escape that a service has not decoded.
func Cookie(value string) (clean string, certain bool) {
	raw := trimCookie(value)
	certain = isPlainCookie(raw)
	if strings.IndexByte(raw, '%') < 0 {
		clean, one := Token(raw)
		return clean, certain && one
	}
	text := make([]byte, 0, len(raw))
	payload := endOfPayload(raw)
	ordinary := true // escapes behind the payload
	for i := 0; i < len(raw); i++ {
		c, ok := Unescape(raw, i)
		if ok {
			i += 2
			ordinary = ordinary && (i < payload || c == '=' || c == '+' || c == '/')
		} else {
			c = raw[i]
		}
		text = append(text, c)
	}
	decoded := string(text)
	clean, one := Token(decoded)
	if strings.LastIndexByte(raw, '%') > payload && (!ordinary || clean == decoded) {
		one = one && readsAs(raw, clean)
	}
	return clean, certain && one
}

// trimCookie returns the value of a cookie without quotes and spaces around it.
func trimCookie(value string) string {
	value = strings.Trim(value, " \t")
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	return value
}

// isPlainCookie reports whether all services read a value as it is.
func isPlainCookie(value string) bool {
	return strings.IndexByte(value, '"') < 0 && strings.IndexByte(value, '\\') < 0 && strings.IndexByte(value, ' ') < 0 &&
		strings.IndexByte(value, ',') < 0 && strings.IndexByte(value, '\t') < 0 && isPrintable(value)
}

// IsPlainCookie reports whether all services read the value of a cookie as it is, except for quotes and spaces around it.
func IsPlainCookie(value string) bool { return isPlainCookie(trimCookie(value)) }
