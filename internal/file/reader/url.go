package reader

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// IsToken reports whether a text is a token of HTTP.
func IsToken(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return text != ""
}

// CheckURL returns why a text is not the URL of a service.
func CheckURL(text string) (problem, suggestion string) {
	shown := Quote(text)
	if strings.Contains(text, "@") { // there could be a password before it
		shown = "the URL"
	}
	const example = "write it as in http://127.0.0.1:3000"
	target, err := url.Parse(text)
	switch {
	case err == nil && target.Host != "" && target.User != nil:
		return "the URL has a user in it", "remove what is before the @"
	case !strings.Contains(text, "://"):
		return shown + " has no scheme", fmt.Sprintf("write %s", Quote("http://"+text))
	case err != nil:
		return shown + " is not a URL", example
	case target.Scheme != "http" && target.Scheme != "https":
		return fmt.Sprintf("%s has the scheme %s", shown, Quote(target.Scheme)), "give http or https"
	case target.Hostname() == "":
		return shown + " has no host", example
	case target.RawQuery != "" || target.Fragment != "" || target.ForceQuery:
		return shown + " has a query or fragment", "give at most a path"
	}
	return "", ""
}

// SplitAddress reads host:port.
func SplitAddress(address string) (host string, port int, problem string) {
	if strings.Contains(address, "://") {
		return "", 0, "is a URL, and host:port is wanted"
	}
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		if !strings.Contains(address, ":") {
			return "", 0, "has no port"
		}
		return "", 0, "is not an address"
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, "has no port from 0 to 65535"
	}
	if strings.ContainsAny(host, " \t/*") {
		return "", 0, "has no valid host"
	}
	return host, int(n), ""
}
