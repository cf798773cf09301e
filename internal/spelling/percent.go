package spelling

// Unescape decodes the percent-encoded byte at i, if there is one.
func Unescape(s string, i int) (byte, bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi, ok1 := Unhex(s[i+1])
	lo, ok2 := Unhex(s[i+2])
	return hi<<4 | lo, ok1 && ok2
}

// Unhex returns the value of a hexadecimal digit.
func Unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
