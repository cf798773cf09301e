package httplimit

import (
	"net/http"

	"github.com/sluicehq/sluice/policy"
)

// reportedValues are the values of a reported request with a header that is another spelling of a header
// that rules read, such as X_User. The gateway may pass it on, and some services treat it as X-User.
type reportedValues struct {
	ownValues
	others http.Header
}

var _ policy.RepeatableValues = (*reportedValues)(nil)

// Read is as for the other values, except for headers that the request has in another spelling: they are
// unclear.
func (v *reportedValues) Read(s policy.Source, name string) policy.Found {
	found := v.ownValues.Read(s, name)
	if s != policy.FromHeader {
		return found
	}
	lines := v.spelled(name)
	if len(lines) == 0 {
		return found
	}
	if found.Count == policy.CountNone {
		found.First = lines[0]
	}
	found.Last, found.Count = lines[len(lines)-1], policy.CountUnclear
	return found
}

// ReadAll returns all values of a name, in all spellings.
func (v *reportedValues) ReadAll(s policy.Source, name string) []string {
	all := v.ownValues.ReadAll(s, name)
	if s == policy.FromHeader {
		all = append(all[:len(all):len(all)], v.spelled(name)...)
	}
	return all
}

// spelled returns the lines of a header in other spellings.
func (v *reportedValues) spelled(name string) (lines []string) {
	for other, values := range v.others {
		if isSpelling(name, other) {
			lines = append(lines, values...)
		}
	}
	return lines
}

// isSpelling reports whether CGI and similar servers turn both names of headers into the same variable.
func isSpelling(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if variableByte(a[i]) != variableByte(b[i]) {
			return false
		}
	}
	return true
}

// variableByte returns the byte of a variable for a byte of a header's name.
func variableByte(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return c
	}
	return '_'
}
