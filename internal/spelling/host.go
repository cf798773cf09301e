package spelling

import (
	"net/netip"
	"strings"

	"github.com/sluicehq/sluice/internal/faults"
)

// maxHost bounds a host, as DNS bounds a name.
const maxHost = 255

// inName are the bytes in the labels of a name: the unreserved characters of RFC 3986 except the dot.
// Services split a host at other characters, such as a comma, or decode them.
var inName = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~") {
		set[c] = true
	}
	return set
}()

// CheckHost returns what is wrong with the host of a request: see policy.CheckHost.
func CheckHost(host string) (f faults.Fault) {
	label := 0 // where the label begins
	for i := range len(host) {
		if inName[host[i]] {
			continue
		}
		if host[i] != '.' || i == label {
			return checkOtherHost(host, i)
		}
		label = i + 1
	}
	if len(host) > maxHost {
		return longHost
	}
	return f
}

// Faults of CheckHost. They do not repeat the host, because clients choose it.
var (
	longHost = faults.New("is longer than 255 bytes", "send the name of a host")
	badHost  = faults.New("is not a host with an optional port", "send it as in api.example.com, 192.0.2.1:8080 or [2001:db8::1]")
)

// checkOtherHost is CheckHost for a host that is not only a name: the byte at i is not of a name.
func checkOtherHost(host string, i int) (f faults.Fault) {
	var port string
	switch {
	case len(host) > maxHost:
		return longHost
	case host[i] == ':' && i > 0:
		port = host[i:]
	case host[i] == '[' && i == 0:
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return badHost
		}
		addr, err := netip.ParseAddr(host[1:end])
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return badHost
		}
		port = host[end+1:]
	default:
		return badHost
	}
	if !isPort(port) {
		return badHost
	}
	return f
}

// IsAddress reports whether a text is an IP address without brackets, as Host writes it.
func IsAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// isPort reports whether a text is empty, or a colon and a port. The port may be missing.
func isPort(text string) bool {
	if text == "" {
		return true
	}
	if text[0] != ':' || len(text) > len(":65535") {
		return false
	}
	n := 0
	for i := 1; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
		n = 10*n + int(text[i]-'0')
	}
	return n <= 65535
}

// Host returns the canonical spelling of a host: ASCII letters in lower case, without port,
// brackets and trailing dot. Addresses are as netip writes them. A host that is clean is returned as it
// is, without allocation.
func Host(host string) string {
	if isCleanHost(host) {
		return host
	}
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

// isCleanHost reports whether Host would change nothing, for names and IPv4 addresses.
func isCleanHost(host string) bool {
	for i := range len(host) {
		if unclean[host[i]] {
			return false
		}
	}
	return host == "" || host[len(host)-1] != '.'
}

// unclean are the bytes of hosts that may not be clean.
var unclean = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ:[]") {
		set[c] = true
	}
	return set
}()

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

// CheckRuleHost returns why a host that a rule names can match nothing, or the zero fault.
func CheckRuleHost(text string) (f faults.Fault) {
	name := strings.TrimPrefix(text, "*.")
	switch {
	case text == "*":
		return faults.New("matches every host", "leave the hosts out")
	case name == "":
		return faults.New("is empty", "give a name such as api.example.com or *.example.com")
	case strings.Contains(name, "/"):
		return faults.New("is a URL", "give its host only")
	case strings.Contains(name, "*"):
		return faults.New("has a star elsewhere than in front", "write *.example.com")
	case strings.Count(name, ":") == 1:
		return faults.New("has a port", "give the host only, which matches all ports")
	case strings.ContainsAny(name, " \t\r\n"):
		return faults.New("has white space in it", "remove it")
	}
	return f
}
