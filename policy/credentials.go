package policy

import (
	"encoding/base64"
	"strings"
)

// isCredentials reports whether a header, in canonical form, holds a scheme and credentials.
func isCredentials(name string) bool {
	return name == "Authorization" || name == "Proxy-Authorization"
}

// schemes are the usual spellings of authentication schemes. Each of them is one token behind the scheme.
var schemes = [...]string{"Bearer", "Basic", "Token", "JWT", "ApiKey", "DPoP", "Negotiate"}

// CleanCredentials returns the value of an Authorization header in one spelling: "bearer  T" is
// "Bearer T". Services ignore the case of the scheme and the number of spaces, and would otherwise
// give one token several keys. An unknown scheme is in lower case.
//
// certain is false if services read different credentials in the value: text behind a token or within one, or a token of Basic
// or a signed token whose base64 is not in its one valid form, which lenient decoders accept: with any scheme, or
// none. Nor is a value certain with bytes other than printable ASCII: some services take them for spaces.
func CleanCredentials(value string) (clean string, certain bool) {
	if !isPrintable(value) {
		return value, false
	}
	value = strings.Trim(value, " \t") // a folded line adds a space
	end := strings.IndexAny(value, " \t")
	if end < 0 {
		end = len(value)
	}
	scheme, rest := value[:end], strings.TrimLeft(value[end:], " \t")
	known := ""
	for _, s := range schemes {
		if strings.EqualFold(s, scheme) {
			known = s
			break
		}
	}
	if rest == "" {
		if known == "" {
			return cleanToken(value) // a token without a scheme, in its own case
		}
		return known, true
	}
	tidy := !strings.Contains(rest, "  ") && strings.IndexByte(rest, '\t') < 0
	if known == scheme && tidy && len(value) == end+1+len(rest) && value[end] == ' ' {
		clean = value
	} else {
		if known == "" {
			known = strings.ToLower(scheme)
		}
		if !tidy {
			rest = strings.Join(strings.FieldsFunc(rest, isSpace), " ")
		}
		clean = known + " " + rest
	}
	switch {
	case strings.IndexByte(scheme, '.') >= 0, isSealed(value):
		return clean, false // a token with spaces in it, which lenient decoders drop
	case known == "Basic":
		return clean, isBase64(base64.StdEncoding.Strict(), rest)
	case isParameters(rest):
		return clean, !hasToken(rest)
	}
	token, certain := cleanToken(rest)
	if token != rest {
		clean = known + " " + token
	}
	if known == "Bearer" || known == "DPoP" {
		certain = certain && isClearToken(rest)
	}
	return clean, certain && !strings.ContainsAny(rest, " ,")
}

// isParameters reports whether credentials are parameters, as Digest has: name="value", and others. A token may
// have an equals sign in it too, but a signed one not near its beginning.
func isParameters(rest string) bool {
	name, value, _ := strings.Cut(rest, "=")
	if len(name) >= shortestToken || !isToken(name) || strings.IndexByte(name, '.') >= 0 || isSealed(rest) {
		return false
	}
	value, _, _ = strings.Cut(value, " ")
	return strings.Trim(value, "=,") != ""
}

// hasToken reports whether one of several words is long, and no parameter: some services look for a token in it.
func hasToken(words string) bool {
	for word := range strings.FieldsFuncSeq(words, isSpace) {
		if len(word) >= shortestToken && !isParameters(word) {
			return true
		}
	}
	return false
}

func isSpace(r rune) bool { return r == ' ' || r == '\t' }

// keyOfCredentials returns the text of a key for credentials that CleanCredentials has returned. Many services
// accept a token without a scheme, or behind any word, as a bearer token, so the client of the token has one budget.
func keyOfCredentials(clean string) string {
	scheme, rest, found := strings.Cut(clean, " ")
	switch {
	case clean == "" || scheme == "Bearer" || scheme == "Basic" || scheme == "Negotiate":
		return clean
	case !found:
		return "Bearer " + clean
	case isParameters(rest):
		return clean
	}
	return "Bearer " + rest
}

// isPrintable reports whether a text is printable ASCII and tabs.
func isPrintable(text string) bool {
	const (
		ones = 0x0101010101010101
		high = 0x80 * ones
	)
	for len(text) >= 8 { // eight bytes at a time, because most headers of keys are read here
		x := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		if (x|(x+ones)|(x-' '*ones))&high != 0 {
			break // one of them may be another byte
		}
		text = text[8:]
	}
	for i := range len(text) {
		if c := text[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// isBase64 reports whether a text is base64 in its one valid form.
func isBase64(e *base64.Encoding, text string) bool {
	if strings.ContainsAny(text, "\r\n") {
		return false // Go ignores them
	}
	var room [512]byte
	const chunk = 600 // characters, a multiple of four
	for len(text) > chunk {
		if strings.IndexByte(text[:chunk], '=') >= 0 {
			return false
		}
		if _, err := e.Decode(room[:], []byte(text[:chunk])); err != nil {
			return false
		}
		text = text[chunk:]
	}
	_, err := e.Decode(room[:], []byte(text))
	return err == nil
}
