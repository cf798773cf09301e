package spelling

import (
	"encoding/base64"
	"strings"
)

// IsCredentials reports whether a header, in canonical form, holds a scheme and credentials.
func IsCredentials(name string) bool {
	return name == "Authorization" || name == "Proxy-Authorization"
}

// schemes are the usual spellings of authentication schemes. Each of them is one token behind the scheme.
var schemes = [...]string{"Bearer", "Basic", "Token", "JWT", "ApiKey", "DPoP", "Negotiate"}

// Credentials returns the value of an Authorization header in one spelling: "bearer  T" is
// "Bearer T". Services ignore the case of the scheme and the number of spaces, and would otherwise
// give one token several keys. An unknown scheme is in lower case.
//
// certain is false if services read different credentials in the value: text behind a token or within one, or a token
// of Basic or a signed token whose base64 is not in its one valid form, which lenient decoders accept: with any scheme,
// or none. Nor is a value certain with bytes other than printable ASCII: some services take them for spaces.
func Credentials(value string) (clean string, certain bool) {
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
			return Token(value) // a token without a scheme, in its own case
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
	token, certain := Token(rest)
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
	if len(name) >= shortestToken || !IsName(name) || strings.IndexByte(name, '.') >= 0 || isSealed(rest) {
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

// CredentialsKey returns the text of a key for credentials that Credentials has returned. Many services
// accept a token without a scheme, or behind any word, as a bearer token, so the client of the token has one budget.
func CredentialsKey(clean string) string {
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
