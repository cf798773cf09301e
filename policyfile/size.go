package policyfile

import (
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as a number or with a unit: 512B, 64KiB,
// 64MiB, 1GiB, or kB, MB and GB for powers of a thousand.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
	{"", 1},
}

// ParseSize reads a size.
func ParseSize(text string) (Size, bool) {
	digits := strings.TrimRight(text, "BGKMik")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false
	}
	for _, u := range sizeUnits {
		if text[len(digits):] == u.name {
			return Size(n) * Size(u.bytes), int64(n) <= math.MaxInt64/u.bytes
		}
	}
	return 0, false
}

// String returns the size in the largest unit of which it is a whole number.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 && u.bytes&(u.bytes-1) == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}
