package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// Upstream is the service behind the proxy: its URL, or a mapping.
type Upstream struct {
	// URL is an http or https URL with a host. A path in it is put before the path of each request; requests
	// with a segment of two dots are then refused.
	// The text echo selects the built-in service that echoes requests, without their secrets.
	URL string `yaml:"url"`
	// ConnectTimeout is how long a connection may take to open. Default: 5s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// ResponseTimeout is how long the headers of the response may take. 0s waits for as long as the
	// client does. Default: 1m.
	ResponseTimeout time.Duration `yaml:"response_timeout"`
	// IdleTimeout is how long an idle connection is kept. Default: 90s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxConnections bounds the connections to the upstream. Requests wait for a free one. 0 means
	// unbounded. Default: 0.
	MaxConnections int `yaml:"max_connections" unit:"connections"`
	// PreserveHost passes the client's Host header on, in lower case and without a trailing dot. Default: true.
	PreserveHost bool `yaml:"preserve_host"`
	// Upgrades lists the protocols to which clients may switch a connection. What passes after that is not
	// limited. The Upgrade header of other protocols is removed. With none, no connection switches.
	// Default: websocket.
	Upgrades []string `yaml:"upgrades"`
	// MethodOverride passes on headers such as X-HTTP-Method-Override, by which some services replace the
	// method that rules have matched. Default: false.
	MethodOverride bool `yaml:"method_override"`
	// TLS is for an https upstream.
	TLS secret.TLS `yaml:"tls"`
}

// Echo is the URL of the built-in service.
const Echo = "echo"

// BuiltIn reports whether the proxy is in front of the built-in service.
func (u *Upstream) BuiltIn() bool { return u.URL == "" || u.URL == Echo }

// Short implements [reader.Shorthand].
func (*Upstream) Short(list bool) string { return reader.Single("url", list) }

// Check checks the settings, which are the section upstream.
func (u *Upstream) Check(s *reader.Source) {
	path := "upstream"
	if s.Has("upstream.url") {
		path = "upstream.url"
	}
	t := &u.TLS
	if (t.Cert == "") != (t.Key == "") {
		s.Follow("upstream.tls", "has only one of certificate and key", "give cert and key, or neither")
	}
	u.checkUpgrades(s)
	if u.URL == "" {
		if s.Has("upstream") {
			s.Follow(path, "has no URL", "write it as in http://127.0.0.1:3000")
		}
		return
	}
	if u.URL == Echo {
		if *t != (secret.TLS{}) {
			s.Follow("upstream.tls", "is given, and the built-in service has none", "remove tls, or give the URL of a service")
		}
		return
	}
	if problem, suggestion := reader.CheckURL(u.URL); problem != "" {
		s.Follow(path, problem, suggestion)
	} else if strings.HasPrefix(strings.ToLower(u.URL), "http://") && *t != (secret.TLS{}) {
		s.Follow("upstream.tls", "is given, and the URL is http", "write https, or remove tls")
	}
}

// checkUpgrades checks the protocols of upgrades.
func (u *Upstream) checkUpgrades(s *reader.Source) {
	for i, protocol := range u.Upgrades {
		at := fmt.Sprintf("upstream.upgrades[%d]", i)
		switch {
		case protocol == "none" && len(u.Upgrades) == 1:
		case strings.EqualFold(protocol, "none"):
			s.Follow(at, reader.Quote(protocol)+" is given beside protocols", "give the protocols, or only none")
		case strings.EqualFold(protocol, "h2c"), strings.EqualFold(protocol, "h2"):
			s.Follow(at, reader.Quote(protocol)+" is HTTP itself, so clients could send any number of requests past all rules", "remove it")
		case !reader.IsToken(strings.Replace(protocol, "/", "-", 1)):
			s.Follow(at, reader.Quote(protocol)+" is not the name of a protocol", "write it as in websocket")
		case slices.ContainsFunc(u.Upgrades[:i], func(other string) bool { return strings.EqualFold(other, protocol) }):
			s.Follow(at, reader.Quote(protocol)+" is there twice", "remove one of them")
		}
	}
}

// DefaultUpstream returns the defaults of the settings.
func DefaultUpstream() Upstream {
	return Upstream{
		ConnectTimeout:  5 * time.Second,
		ResponseTimeout: time.Minute,
		IdleTimeout:     90 * time.Second,
		PreserveHost:    true,
		Upgrades:        []string{"websocket"},
	}
}
