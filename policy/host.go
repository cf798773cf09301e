package policy

import (
	"net/netip"
	"strings"
)

// CleanHost returns the one spelling of a host: ASCII letters in lower case,
// without port, brackets and the trailing dot, and addresses as netip writes
// them. A host that is clean is returned as it is, without allocation.
func CleanHost(host string) string {
	host = strings.TrimRight(host, ".")
	switch strings.Count(host, ":") {
	case 0:
	case 1:
		host = strings.TrimRight(host[:strings.IndexByte(host, ':')], ".")
	default:
		inner := host
		if strings.HasPrefix(host, "[") {
			inner, _, _ = strings.Cut(host[1:], "]")
		}
		if addr, err := netip.ParseAddr(inner); err == nil {
			return addr.String()
		}
	}
	return lowerASCII(host)
}

func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}

// checkHost returns why a pattern of hosts can match nothing, if it cannot.
func checkHost(text string) (f fault) {
	name := strings.TrimPrefix(text, "*.")
	switch {
	case text == "*":
		return fault{"matches every host", "leave the hosts out"}
	case name == "":
		return fault{"is empty", "give a name such as api.example.com or *.example.com"}
	case strings.Contains(name, "://") || strings.Contains(name, "/"):
		return fault{"is a URL", "give its host only"}
	case strings.Contains(name, "*"):
		return fault{"has a star elsewhere than in front", "write *.example.com"}
	case strings.Count(name, ":") == 1:
		return fault{"has a port", "give the host only, which matches all ports"}
	case strings.ContainsAny(name, " \t\r\n"):
		return fault{"has white space in it", "remove it"}
	}
	return f
}
