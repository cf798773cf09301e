package modelusage

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCountsOfNumbers holds parseCount to its table: whole numbers of at least 0 in any spelling, at most Most.
func TestCountsOfNumbers(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]int64{
		"0": 0, "-0": 0, "-0.0e5": 0, "7": 7, "1e3": 1000, "1E+3": 1000, "1000e-3": 1, "1.5e1": 15, "1.0": 1, "0e99999999999999999999": 0,
		"9007199254740991": Most, "9007199254740992": Most, "1e16": Most, "1e400": Most, "1e999999999999": Most, "123456789012345678901234567890": Most,
		"9007199254740990": Most - 1, "90071992547409900e-1": Most - 1, "1" + strings.Repeat("0", 31): Most, "1e-400": 0, "-1e-400": 0,
		"-1": -1, "-1e5": -1, "-1e400": -1, "0.5": -1, "1.5": -1, "1e-1": -1, "": -1, "-": -1, "01": -1, "1.": -1, ".5": -1, "1e": -1,
		"1e+": -1, "+1": -1, "1x": -1, "1e5x": -1, "0x10": -1, "1_000": -1, "NaN": -1, "Inf": -1, "null": -1, "\"1\"": -1, " 1": -1, "1 ": -1,
		"1.5.5": -1, "1" + strings.Repeat("0", 32): -1,
	} {
		got, ok := parseCount([]byte(number))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("parseCount(%q) = %d, want %d (-1 if it is not a count)", number, got, want)
		}
	}
}

// TestCountsAgreeWithRationals holds parseCount to exact rational numbers, over random texts of digits and signs.
func TestCountsAgreeWithRationals(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 26))
	numbers := 0
	for range 200_000 {
		text := make([]byte, 1+r.IntN(12))
		for i := range text {
			text[i] = "00123459.e-E+"[r.IntN(13)]
		}
		got, ok := parseCount(text)
		if !json.Valid(text) {
			if ok {
				t.Errorf("parseCount(%q) = %d, want no count: it is not a number of JSON", text, got)
			}
			continue
		}
		numbers++
		if want, whole := countOf(string(text)); got != want || ok != whole {
			t.Errorf("parseCount(%q) = %d, %v, want %d, %v", text, got, ok, want, whole)
		}
	}
	if numbers < 10_000 {
		t.Errorf("%d of 200,000 random texts are numbers, want at least 10,000", numbers)
	}
}

// TestProductsStayCounts holds times to its bound.
func TestProductsStayCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ a, b, want int64 }{
		{0, Most, 0}, {Most, 0, 0}, {3, 4, 12}, {Most, 1, Most}, {Most, 2, Most}, {Most, Most, Most}, {1 << 30, 1 << 30, Most},
	} {
		if got := times(test.a, test.b); got != test.want {
			t.Errorf("times(%d, %d) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
