package policy

import (
	"slices"
	"strings"
)

// CleanCookie returns the value of a cookie in one spelling: without quotes and spaces around it, and with
// %61 decoded to a. Many services do the same, and would otherwise give one session several keys.
//
// certain is false for a value with quotes, backslashes, spaces or commas in it: some services end the value
// there, and some decode them. Nor is a value certain with bytes other than printable ASCII: some services
// take them for spaces. Nor is a signed token whose base64 is not in its one valid form, or has other escapes in
// it than of base64: decoders drop the percent sign of an escape that a service has not decoded.
func CleanCookie(value string) (clean string, certain bool) {
	raw := trimCookie(value)
	certain = isPlainCookie(raw)
	if strings.IndexByte(raw, '%') < 0 {
		clean, one := cleanToken(raw)
		return clean, certain && one
	}
	text := make([]byte, 0, len(raw))
	ordinary := true // escapes behind the last dot
	for i := 0; i < len(raw); i++ {
		c, ok := unescape(raw, i)
		if ok {
			i += 2
			ordinary = ordinary && (c == '=' || c == '+' || c == '/')
		} else if c = raw[i]; c == '.' {
			ordinary = true
		}
		text = append(text, c)
	}
	decoded := string(text)
	clean, one := cleanToken(decoded)
	if strings.LastIndexByte(raw, '%') > strings.LastIndexByte(raw, '.') && !(ordinary && clean != decoded) {
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

// cleanAll returns values of a rule in the spelling in which requests have them.
func cleanAll(s Source, name string, values []string) []string {
	clean := slices.Clone(values)
	for i := range clean {
		clean[i], _ = cleanValue(s, name, clean[i])
	}
	return clean
}

// cleanPrefixes is cleanAll for beginnings of values. Credentials keep the space behind the scheme. The dots end the
// last part of a token, which a prefix does not end.
func cleanPrefixes(s Source, name string, prefixes []string) []string {
	const end = "x....."
	clean := slices.Clone(prefixes)
	for i := range clean {
		clean[i], _ = cleanValue(s, name, clean[i]+end)
		clean[i] = strings.TrimSuffix(clean[i], end)
	}
	return clean
}
