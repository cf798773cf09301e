package policy

import "slices"

// IsAlias reports whether some servers treat a header as one of the ReadHeaders: CGI and similar servers
// turn every byte of a name that is not a letter or digit into an underscore, so X_Api_Key becomes
// X-Api-Key. The name is in canonical form.
func (p *Policy) IsAlias(header string) bool {
	return p.aliasLengths&lengthBit(header) != 0 && p.findsAlias(header)
}

// findsAlias is IsAlias for a header that is as long as a header with other spellings.
func (p *Policy) findsAlias(header string) bool {
	for _, own := range p.readHeaders {
		if len(own) == len(header) && isAlike(own, header) {
			return !slices.Contains(p.readHeaders, header)
		}
	}
	return false
}

// lengthBit returns the bit for the length of a name. All long names have the same bit.
func lengthBit(name string) uint64 { return 1 << min(len(name), 63) }

// setAliases fills in the lengths of the headers that have other spellings.
func (p *Policy) setAliases() {
	p.aliasLengths = 0
	for _, name := range p.readHeaders {
		for i := range len(name) {
			if !isAlphanumeric(name[i]) {
				p.aliasLengths |= lengthBit(name)
			}
		}
	}
}

// isAlike compares names of one length, without regard to case. All other bytes than letters and digits are
// equal.
func isAlike(a, b string) bool {
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if isAlphanumeric(x) != isAlphanumeric(y) || isAlphanumeric(x) && (x|0x20 != y|0x20 || x < 'A' || y < 'A') {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
