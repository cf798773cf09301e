package config

import (
	"net/netip"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

// Proxy is an entry of trusted_proxies: a network, or all peers at Unix sockets.
type Proxy struct {
	// Network is the network of the proxies; invalid for peers at Unix sockets.
	Network netip.Prefix
	// Unix is true for peers at Unix sockets.
	Unix bool
}

// unixProxies is the word for peers at Unix sockets.
const unixProxies = "unix"

// String returns the entry as it is written.
func (p Proxy) String() string {
	if p.Unix {
		return unixProxies
	}
	return p.Network.String()
}

// Parse reads an address, a network, or the word for peers at Unix sockets.
func (p *Proxy) Parse(text string) (problem, suggestion string) {
	if text == unixProxies {
		p.Unix = true
		return "", ""
	}
	p.Network, problem, suggestion = reader.ParsePrefix(text)
	if strings.HasPrefix(text, unixProxies) {
		suggestion = "write unix, for peers at Unix sockets"
	}
	return problem, suggestion
}

// Trusted returns the networks of trusted_proxies, and whether peers at Unix sockets are trusted too.
func (f *File) Trusted() (networks []netip.Prefix, unix bool) {
	for _, p := range f.TrustedProxies {
		if p.Unix {
			unix = true
		} else {
			networks = append(networks, p.Network)
		}
	}
	return networks, unix
}

// trustsAt reports whether trusted_proxies can have peers at an address. The remedy is for a file without such peers.
func (f *File) trustsAt(l accept.Listener) (trusted bool, remedy string) {
	networks, unix := f.Trusted()
	if path, _ := l.Socket(); path != "" {
		return unix, "add unix to trusted_proxies"
	}
	return len(networks) > 0, "list the addresses of the gateways under trusted_proxies, such as 127.0.0.1/32"
}

// warnSocket reports that requests at a Unix socket of the proxy have no client address, if a rule reads it.
func (f *File) warnSocket(s *reader.Source) {
	l := f.Listen.Proxy
	if path, _ := l.Socket(); path == "" {
		return
	}
	if _, unix := f.Trusted(); unix {
		return
	}
	who := ""
	for i := range f.Classes {
		if c := &f.Classes[i]; who == "" && c.Match.ReadsClient() {
			who = "class " + reader.Quote(c.Name)
		}
	}
	for i := range f.Rules {
		if r := &f.Rules[i]; who == "" && r.ReadsClient() {
			who = "rule " + reader.Quote(r.Name)
		}
	}
	if who != "" {
		s.Follow("listen.proxy", "is a Unix socket, whose requests have no client address, and "+who+" reads it",
			"add unix to trusted_proxies if the gateway at the socket writes X-Forwarded-For; otherwise give the rules other keys")
	}
}
