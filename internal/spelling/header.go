package spelling

import (
	"strings"

	"github.com/sluicehq/sluice/internal/faults"
)

// Header returns the value of a header in one spelling. certain is false if services read different values in it.
func Header(value string) (clean string, certain bool) {
	clean, certain = Token(value)
	return clean, certain && isClear(value)
}

// isClear reports whether all services read the value of a header as it is.
func isClear(value string) bool {
	return value == "" || value[0] > ' ' && value[len(value)-1] > ' ' && isPrintable(value)
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

// CheckHeader returns why no request has a header of this name, or the zero fault.
func CheckHeader(name string) (f faults.Fault) {
	switch {
	case !IsName(name):
		return faults.New("is not a name of a header", "give one such as X-User")
	case strings.EqualFold(name, "Host"):
		return faults.New("is not among the headers that rules see", "use the host instead")
	}
	return f
}

// AlikeNames reports whether some services read two names of headers as one. CGI and similar servers turn every byte of a
// name that is not a letter or a digit into an underscore, so X_Api_Key and X!Api.Key are X-Api-Key.
func AlikeNames(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && nameByte(a[i]) != nameByte(b[i]) {
			return false
		}
	}
	return true
}

// AppendName appends the name of a header as such services read it: lower-case letters, digits and dashes.
func AppendName(dst []byte, name string) []byte {
	for i := range len(name) {
		dst = append(dst, nameByte(name[i]))
	}
	return dst
}

func nameByte(c byte) byte {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return c
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	}
	return '-'
}
