package modelusage

// longestCount is the most bytes of a number that is read as a count.
const longestCount = 64

// parseCount returns the whole number of at least 0 that a number of JSON has, at most Most. 1e3 is 1000, and 1.5e1 is 15.
// It reports false for other numbers, for numbers longer than longestCount, and for other bytes.
func parseCount(number []byte) (n int64, ok bool) {
	if len(number) > longestCount {
		return 0, false
	}
	var space [longestCount]byte
	digits, rest := space[:0], number
	negative := len(rest) > 0 && rest[0] == '-'
	if negative {
		rest = rest[1:]
	}
	digits, rest = appendDigits(digits, rest)
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	exponent := 0
	if len(rest) > 0 && rest[0] == '.' {
		whole := len(digits)
		digits, rest = appendDigits(digits, rest[1:])
		if exponent = whole - len(digits); exponent == 0 {
			return 0, false
		}
	}
	if len(rest) > 0 && rest[0]|0x20 == 'e' {
		power, valid := parsePower(rest[1:])
		if !valid {
			return 0, false
		}
		exponent, rest = exponent+power, nil
	}
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exponent++
	}
	switch {
	case len(rest) > 0:
		return 0, false
	case len(digits) == 0:
		return 0, true
	case negative || exponent < 0:
		return 0, false
	case len(digits)+exponent > len("9007199254740991"):
		return Most, true
	}
	for _, digit := range digits {
		n = n*10 + int64(digit-'0')
	}
	for ; exponent > 0; exponent-- {
		n *= 10
	}
	return min(n, Most), true
}

// parsePower returns the number after the e of a number of JSON. Powers beyond ±9999 are ±9999: no count has so many digits.
func parsePower(power []byte) (n int, ok bool) {
	sign := 1
	if len(power) > 0 && (power[0] == '+' || power[0] == '-') {
		if power[0] == '-' {
			sign = -1
		}
		power = power[1:]
	}
	for _, c := range power {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 9999)
	}
	return sign * n, len(power) > 0
}

// appendDigits appends the digits that rest begins with, and returns what follows them.
func appendDigits(digits, rest []byte) (appended, after []byte) {
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	return append(digits, rest[:n]...), rest[n:]
}

// times returns a·b, at most Most. Both are at least 0 and at most Most.
func times(a, b int64) int64 {
	if b > 0 && a > Most/b {
		return Most
	}
	return a * b
}
