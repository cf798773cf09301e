package config

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// HeaderProfile selects the response headers that inform clients of their limits.
type HeaderProfile string

// The profiles.
const (
	// HeadersIETF are RateLimit and RateLimit-Policy.
	HeadersIETF HeaderProfile = "ietf"
	// HeadersXRateLimit are X-RateLimit-Limit, -Remaining and -Reset.
	HeadersXRateLimit HeaderProfile = "x-ratelimit"
	// HeadersXRateHyphenLimit are X-Rate-Limit-Limit, -Remaining and -Reset.
	HeadersXRateHyphenLimit HeaderProfile = "x-rate-limit"
	// HeadersRateLimit are RateLimit-Limit, -Remaining and -Reset.
	HeadersRateLimit HeaderProfile = "ratelimit"
	// HeadersOpenAI are X-RateLimit-Limit-Requests and -Tokens, with -Remaining and -Reset.
	HeadersOpenAI HeaderProfile = "openai"
	// HeadersNone sends none. A denial still has Retry-After.
	HeadersNone HeaderProfile = "none"
)

// HeaderNames are other names of headers.
type HeaderNames struct {
	// Limit is the name of the header with the limit. Default: the name in the profile, such as X-RateLimit-Limit.
	Limit string `yaml:"limit"`
	// Remaining is the name of the header with the units that remain. Default: the name in the profile.
	Remaining string `yaml:"remaining"`
	// Reset is the name of the header with the time until all units are back. Default: the name in the profile.
	Reset string `yaml:"reset"`
}

// checkHeaders checks the names of headers.
func (f *File) checkHeaders(s *reader.Source) {
	named := map[string]string{} // the settings of names
	for _, n := range []struct{ setting, name string }{{"limit", f.HeaderNames.Limit}, {"remaining", f.HeaderNames.Remaining}, {"reset", f.HeaderNames.Reset}} {
		path, name := "header_names."+n.setting, n.name
		if name == "" {
			name = string(f.Headers) + "-" + n.setting
		}
		lower := strings.ToLower(name)
		switch {
		case n.name == "" && named[lower] == "":
		case n.name != "" && (f.Headers == HeadersNone || f.Headers == HeadersOpenAI || f.Headers == HeadersIETF || f.Headers == ""):
			s.Follow(path, "is given, and headers selects no such header", "give headers: x-ratelimit, or remove it")
		case !reader.IsToken(name):
			s.Follow(path, reader.Quote(name)+" is not the name of a header", "write it as in X-RateLimit-Limit")
		case reservedHeaders[lower]:
			s.Follow(path, reader.Quote(name)+" is a header with another meaning", "give a name of its own, such as X-RateLimit-Limit")
		case named[lower] != "":
			s.Follow(path, fmt.Sprintf("%s is the name of %s too", reader.Quote(name), named[lower]), "give each of them a name of its own")
		}
		named[lower] = path
	}
}

// reservedHeaders are headers of answers that the server sets itself, or that say how the answer is read.
var reservedHeaders = map[string]bool{
	"retry-after": true, "content-type": true, "content-length": true, "transfer-encoding": true, "connection": true, "cache-control": true,
	"date": true, "trailer": true, "upgrade": true, "content-encoding": true, "location": true, "set-cookie": true, "x-content-type-options": true,
}
