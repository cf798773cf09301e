package expression

import (
	"math"
	"strings"
)

// number reads a whole number: "7", "+7", "-7", "007", " 7 " and "7.0". A number that does not fit is the
// largest or smallest one that does.
//
// Any other text is the number that it begins with, or 0. certain is false for a text in which services
// read different numbers, such as "7.5", "7abc", "1e3", "1_000" or digits that are not ASCII.
func number(text string) (n int, certain bool) {
	text = strings.Trim(text, " \t")
	digits := strings.TrimLeft(text, "+-")
	if len(text)-len(digits) > 1 {
		return 0, true // two signs
	}
	negative := strings.HasPrefix(text, "-")
	end := 0
	for end < len(digits) && isDigit(digits[end]) {
		d := int(digits[end] - '0')
		if n > (math.MaxInt-d)/10 {
			n = math.MaxInt
		} else {
			n = 10*n + d
		}
		end++
	}
	if negative {
		n = -n
	}
	return n, isWhole(digits, end)
}

// isWhole reports whether all services read the number that ends at end, or none.
func isWhole(digits string, end int) bool {
	rest := digits[end:]
	switch {
	case rest == "":
		return true
	case end > 0:
		fraction, ok := strings.CutPrefix(rest, ".")
		return ok && strings.Trim(fraction, "0") == ""
	case rest[0] == '.':
		return len(rest) == 1 || !isDigit(rest[1])
	case len(rest) > 2 && strings.EqualFold(rest[:3], "inf"):
		return false
	}
	return rest[0] < 0x80
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
