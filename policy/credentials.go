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
var schemes = [...]string{"Bearer", "Basic", "Token", "ApiKey", "DPoP", "Negotiate"}

// CleanCredentials returns the value of an Authorization header in one spelling: "bearer  T" is
// "Bearer T". Services ignore the case of the scheme and the number of spaces, and would otherwise
// give one token several keys. An unknown scheme is in lower case.
//
// certain is false if services read different credentials in the value: text behind a bearer token, or a
// token of Basic or a JSON Web Token whose base64 is not in its one valid form, which lenient decoders
// accept. Nor is a value certain with bytes other than printable ASCII: some services take them for spaces.
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
			return value, true // a token without a scheme, in its own case
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
			rest = strings.Join(strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
		}
		clean = known + " " + rest
	}
	switch known {
	case "Bearer", "DPoP":
		return clean, !strings.ContainsAny(rest, " ,") && isClearToken(rest)
	case "Basic":
		return clean, isBase64(base64.StdEncoding.Strict(), rest)
	}
	return clean, true
}

// keyOfCredentials returns the text of a key for credentials that CleanCredentials has returned. A token
// without a scheme is a bearer token in many services, so the client of the token has one budget.
func keyOfCredentials(clean string) string {
	if clean == "" || clean == "Bearer" || strings.IndexByte(clean, ' ') >= 0 {
		return clean
	}
	return "Bearer " + clean
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

// isClearToken reports whether a token has one spelling only. The parts of a JSON Web Token are base64. A
// signature covers the text of the parts before it, not its own text.
func isClearToken(token string) bool {
	header, rest, found := strings.Cut(token, ".")
	if !found || !strings.HasPrefix(header, "ey") {
		return true
	}
	if payload, signature, signed := strings.Cut(rest, "."); signed && len(payload) > 0 && strings.IndexByte(signature, '.') < 0 {
		return isBase64(base64.RawURLEncoding.Strict(), signature)
	}
	for part := range strings.SplitSeq(rest, ".") { // encrypted
		if !isBase64(base64.RawURLEncoding.Strict(), part) {
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
