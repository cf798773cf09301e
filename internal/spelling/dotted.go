package spelling

import (
	"encoding/base64"
	"strings"
)

// endOfPayload returns the index of the first dot with something before it, or -1.
func endOfPayload(value string) int {
	leading := len(value) - len(strings.TrimLeft(value, "."))
	if end := strings.IndexByte(value[leading:], '.'); end >= 0 {
		return leading + end
	}
	return -1
}

// cleanDotted looks for signatures that services find before the last dot of a value with several dots, where dot ends the
// payload. Some services read the part behind the first or the second dot, and ignore what follows it. Others decode
// everything behind that dot, and drop more dots. found says that one finds a signature, and whole that none ignores
// a part of the value.
func cleanDotted(value string, dot int) (clean string, whole, found bool) {
	clean, whole = value, true
	for part := range 2 {
		rest := value[dot+1:]
		next := strings.IndexByte(rest, '.')
		if next < 0 {
			break
		}
		if !isJSON(rest) { // a payload
			if end, all := findRandom(rest); end > 0 && !hasOtherDots(value) && (part > 0 || !names(value, "alg")) {
				if !found {
					clean = value[:dot+1] + canonicalBase64(strings.ReplaceAll(rest[:end], "=", ""), false)
				}
				whole, found = whole && all, true
			}
		}
		dot += 1 + next
	}
	return clean, whole, found
}

// hasOtherDots reports whether all services read the dots of a value in one way: it is a token of PASETO, or a cookie that
// Express signed, with the signature at its end.
func hasOtherDots(value string) bool {
	version, rest, _ := strings.Cut(value, ".")
	return strings.HasPrefix(value, "s:") || len(version) == 2 && version[0] == 'v' && (strings.HasPrefix(rest, "local.") || strings.HasPrefix(rest, "public."))
}

// names reports whether the first part of a token is JSON in base64 with a member of this name: alg is in each JSON Web
// Token, and enc in encrypted ones.
func names(token, member string) bool {
	if !isJSON(token) {
		return false
	}
	head, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(head, "="))
	if err != nil {
		return false
	}
	for _, behind := range strings.Split(string(text), `"`+member+`"`)[1:] {
		if strings.HasPrefix(strings.TrimLeft(behind, " \t\r\n"), ":") {
			return true
		}
	}
	return false
}

// findRandom returns where the signature ends that some decoder finds at the beginning of a text, or 0. Decoders end at the
// first dot, at padding, or at the end. whole says that they drop the rest. A signature has a usual size and looks
// random: it has letters of both cases and other characters, and often changes between them. Names of hosts,
// classes and files can have the size, but change less.
func findRandom(text string) (end int, whole bool) {
	var has [5]bool
	size, changes, found := 0, 0, 0
	before := uint8(symbol)
	dotted := false
	for i := 0; i <= len(text) && size <= digests[len(digests)-1]; i++ {
		ends := i == len(text)
		if !ends {
			kind := kinds[text[i]]
			if kind != foreign {
				if kind != before && kind != symbol && before != symbol { // hyphens separate words
					changes++
				}
				has[kind], before = true, kind
				size++
				continue
			}
			ends = text[i] == '=' || text[i] == '.' && !dotted
			dotted = dotted || text[i] == '.'
		}
		if ends && found == 0 && isDigest(size) && has[upper] && has[lower] && (has[digit] || has[symbol]) && changes >= size/4 {
			end, found = i, size
		}
	}
	return end, found == size
}

// Kinds of bytes in base64.
const (
	foreign = iota
	upper
	lower
	digit
	symbol
)

var kinds = func() (all [256]uint8) {
	for c := range all {
		switch {
		case 'A' <= c && c <= 'Z':
			all[c] = upper
		case 'a' <= c && c <= 'z':
			all[c] = lower
		case '0' <= c && c <= '9':
			all[c] = digit
		case base64Bytes[c]:
			all[c] = symbol
		}
	}
	return all
}()

// countBase64 returns how many bytes of a text are of base64.
func countBase64(text string) (n int) {
	for i := range len(text) {
		if kinds[text[i]] != foreign {
			n++
		}
	}
	return n
}
