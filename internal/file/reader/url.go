package reader

import (
	"fmt"
	"net/url"
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
