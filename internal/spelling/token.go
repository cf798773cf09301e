package spelling

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Services decode the signature of a token from base64, and many do so leniently: they drop bytes that are not of
// base64, what follows padding, and the unused bits of the last character. So a signature has endless spellings
// that one service accepts. Signatures and sealed tokens get one spelling here, whatever value they are in.

// shortestToken is the size of the shortest token that is looked at.
const shortestToken = 28

// digests are the sizes in base64, without padding, of the usual signatures: SHA-1 to SHA-512, ECDSA, Ed25519 and RSA.
var digests = [...]int{27, 38, 43, 64, 86, 128, 171, 176, 342, 512, 683}

// sealedPrefixes begin tokens that are base64 as a whole: JSON, tokens of Fernet, and of ASP.NET. Behind JSON, a dot
// may begin a signature.
var sealedPrefixes = [...]string{"eyJ", "gAAAAA", "CfDJ8"}

// Token returns a value in one spelling if it looks like a signed token. certain is false if the value is not
// in the one spelling, and cannot be anything else than a token: edges refuse such a request. Other values that
// only look like a token keep their meaning: nothing is lost but what lenient decoders drop.
func Token(value string) (clean string, certain bool) {
	if len(value) < shortestToken {
		return value, true
	}
	dot := strings.LastIndexByte(value, '.')
	if dot < 0 || beginsAs(value, sealedPrefixes[1:]) {
		return cleanSealed(value)
	}
	tail := value[dot+1:]
	spelled, certain := cleanSignature(tail)
	if first := endOfPayload(value); first >= 0 && first < dot {
		if isJSON(value) { // with a signature of any size
			spelled, certain = canonicalBase64(spelled, isPlainBase64(spelled)), isClearToken(value)
		}
		if clean, whole, found := cleanDotted(value, first); found {
			return clean, certain && whole && countBase64(tail) == countBase64(spelled)
		}
	}
	if spelled != tail {
		value = value[:dot+1] + spelled
	}
	return value, certain
}

// readsAs reports whether a service that reads a text otherwise finds no token in it, or the same one.
func readsAs(text, clean string) bool {
	other, _ := Token(text)
	return other == text || other == clean
}

// Parameter is Token for a parameter of a query. Some services read a plus sign as it is, and Flask leaves escapes as
// they are that are not of UTF-8.
func Parameter(value string) (clean string, certain bool) {
	clean, certain = Token(value)
	if n := strings.Count(value, " "); n > 0 && len(value) >= 12*n { // text has more spaces than base64 has plus signs
		certain = certain && readsAs(strings.ReplaceAll(value, " ", "+"), clean)
	}
	if len(value) < shortestToken || utf8.ValidString(value) {
		return clean, certain
	}
	var text strings.Builder
	for at := 0; at < len(value); {
		r, n := utf8.DecodeRuneInString(value[at:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&text, "%%%02X", value[at])
		} else {
			text.WriteString(value[at : at+n])
		}
		at += n
	}
	return clean, certain && readsAs(text.String(), clean)
}

// cleanSignature returns a text in one spelling if some decoder finds a signature of a usual size in it. Decoders drop what
// is not of base64. At padding, some end, and others drop it too: certain is false if they find different signatures.
func cleanSignature(text string) (clean string, certain bool) {
	if isPlainBase64(text) {
		if isDigest(len(text)) {
			text = canonicalBase64(text, true)
		}
		return text, true
	}
	size, found, end := 0, 0, 0
	certain = true
	for i := range len(text) + 1 {
		switch {
		case i < len(text) && isBase64Byte(text[i]):
			size++
		case size != found && (i == len(text) || text[i] == '=') && isDigest(size):
			if certain = found == 0; certain { // a key cannot end with what decoders do not read
				end = i
			}
			found = size
		}
	}
	if found == 0 {
		return text, true
	}
	return canonicalBase64(strings.ReplaceAll(text[:end], "=", ""), false), certain
}

func isDigest(n int) bool {
	for _, d := range digests {
		if d == n {
			return true
		}
	}
	return false
}

// isJSON reports whether a text begins as a JSON object in base64: with a brace, and a quote, a space or a line end.
func isJSON(text string) bool {
	return len(text) > 2 && text[0] == 'e' && (text[1] == 'y' && (text[2] == 'J' || text[2] == 'A') || text[1] == 'w' && (text[2] == 'o' || text[2] == '0'))
}

// cleanSealed is Token for a value without dots.
func cleanSealed(value string) (clean string, certain bool) {
	if !isSealed(value) {
		return value, true
	}
	text := strings.TrimRight(value, "=")
	if isPlainBase64(text) {
		return canonicalBase64(text, true), true // with and without padding
	}
	at := strings.IndexByte(text, '=')
	if at < 0 {
		return canonicalBase64(text, false), true
	}
	behind := strings.TrimLeft(text[at:], "=")
	if strings.HasPrefix(value, "eyJ") && (behind[0] == '|' || behind[0] == ':' || strings.HasPrefix(behind, "--")) {
		return value, true // JSON in base64, and its signature, as Rack writes cookies
	}
	for i := range len(behind) {
		if isBase64Byte(behind[i]) { // some decoders end at the padding, and others read on
			return canonicalBase64(strings.ReplaceAll(text, "=", ""), false), false
		}
	}
	return canonicalBase64(text[:at], false), true
}

// isSealed reports whether a value begins as a sealed token, to a decoder that drops what is not of base64.
func isSealed(value string) bool { return beginsAs(value, sealedPrefixes[:]) }

func beginsAs(value string, prefixes []string) bool {
	for _, p := range prefixes {
		at := 0
		for i := 0; i < len(value) && at < len(p); i++ {
			if value[i] == p[at] {
				at++
			} else if isBase64Byte(value[i]) {
				break
			}
		}
		if at == len(p) {
			return true
		}
	}
	return false
}

// canonicalBase64 returns base64 in one spelling: without what decoders drop, without padding and what follows it, in the
// alphabet for URLs, and with the unused bits zero. plain says that all bytes are of base64.
func canonicalBase64(text string, plain bool) string {
	if plain && strings.IndexByte(text, '+') < 0 && strings.IndexByte(text, '/') < 0 {
		return clearBits(text)
	}
	clean := make([]byte, 0, len(text))
	for i := range len(text) {
		switch c := text[i]; {
		case c == '+':
			clean = append(clean, '-')
		case c == '/':
			clean = append(clean, '_')
		case isBase64Byte(c):
			clean = append(clean, c)
		case c == '=' && len(clean)%4 > 1:
			return clearBits(string(clean))
		}
	}
	return clearBits(string(clean))
}

// clearBits clears the bits of the last character that no byte uses.
func clearBits(text string) string {
	var unused int
	switch len(text) % 4 {
	case 2:
		unused = 0b1111
	case 3:
		unused = 0b11
	default:
		return text
	}
	last := text[len(text)-1]
	n := strings.IndexByte(urlAlphabet, last)
	if n < 0 || n&unused == 0 {
		return text
	}
	return text[:len(text)-1] + urlAlphabet[n&^unused:][:1]
}

const urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// base64Bytes are the bytes of both alphabets.
var base64Bytes = func() (set [256]bool) {
	for _, c := range []byte(urlAlphabet + "+/") {
		set[c] = true
	}
	return set
}()

func isBase64Byte(c byte) bool { return base64Bytes[c] }

// isPlainBase64 reports whether a text has bytes of base64 only.
func isPlainBase64(text string) bool {
	for i := range len(text) {
		if !base64Bytes[text[i]] {
			return false
		}
	}
	return true
}

// isClearToken reports whether a token has one spelling only. The parts of a JSON Web Token are base64. A
// signature covers the text of the parts before it, not its own text.
func isClearToken(token string) bool {
	header, rest, found := strings.Cut(token, ".")
	if !found || !strings.HasPrefix(header, "ey") && !strings.HasPrefix(header, "ew") {
		return true
	}
	if payload, signature, signed := strings.Cut(rest, "."); signed && len(payload) > 0 && strings.IndexByte(signature, '.') < 0 {
		return isBase64(base64.RawURLEncoding.Strict(), signature)
	}
	if n := strings.Count(rest, "."); n > 1 && (n != 3 || !names(header, "enc")) {
		return false // not encrypted, so some services read the first three parts only
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
