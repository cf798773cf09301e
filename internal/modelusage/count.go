package modelusage

import (
	"encoding/json"
	"math"
	"strconv"
)

// longestCount is the most bytes of a number that is read as a count.
const longestCount = 32

// parseCount returns the whole number of at least 0 that is the value of a number of JSON, at most Most: 1e3 is 1000.
// It takes the value as most services do, as the nearest float64. It reports false for other numbers, for numbers
// longer than longestCount, and for other bytes.
func parseCount(number []byte) (n int64, ok bool) {
	// Nearly all counts are a few digits.
	for i := 0; i < len(number) && i < 15 && isDigit(number[i]) && (number[0] != '0' || len(number) == 1); i++ {
		n = n*10 + int64(number[i]-'0')
		if i == len(number)-1 {
			return n, true
		}
	}
	if len(number) == 0 || len(number) > longestCount || number[0] != '-' && !isDigit(number[0]) || !isDigit(number[len(number)-1]) || !json.Valid(number) {
		return 0, false
	}
	// The only error is a number beyond the range, whose value is infinite.
	value, _ := strconv.ParseFloat(string(number), 64)
	if value < 0 || value != math.Trunc(value) {
		return 0, false
	}
	return int64(min(value, Most)), true
}

// isDigit reports whether a byte is a decimal digit.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// times returns a·b, at most Most. Both are at least 0 and at most Most.
func times(a, b int64) int64 {
	if b > 0 && a > Most/b {
		return Most
	}
	return a * b
}
