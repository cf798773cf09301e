package httplimit

import (
	"net/netip"
	"strconv"
	"strings"
)

// longestNode bounds the text of one address with its brackets, zone and port.
const longestNode = 128

// parseNode reads an address, which may have a port, and brackets if it is one of
// IPv6. The address has no zone and is not mapped; it is invalid if there is
// none. The text is the address's own if it is one of IPv4, which has only one spelling.
func parseNode(s string) (netip.Addr, string) {
	if s == "" || len(s) > longestNode {
		return netip.Addr{}, ""
	}
	host := s
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 || end+1 < len(s) && !isPort(s[end+1:]) {
			return netip.Addr{}, ""
		}
		host = s[1:end]
		if strings.IndexByte(host, ':') < 0 {
			return netip.Addr{}, ""
		}
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 && strings.IndexByte(s[colon+1:], ':') < 0 {
		// One colon: IPv4 and a port. Several are IPv6 alone.
		if !isPort(s[colon:]) {
			return netip.Addr{}, ""
		}
		host = s[:colon]
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, ""
	}
	if a.Is4() {
		return a, host
	}
	return a.Unmap().WithZone(""), ""
}

// isPort reports whether s is a colon and a port, which may be obfuscated as in RFC 7239.
func isPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		for i := 2; i < len(s); i++ {
			if !isObfuscated(s[i]) {
				return false
			}
		}
		return len(s) > 2
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil
}

func isObfuscated(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}
