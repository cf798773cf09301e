package config

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// socketPrefix begins the address of a Unix socket. The path follows.
const socketPrefix = "unix:"

// defaultSocketMode lets the server's user and group connect.
const defaultSocketMode = 0o660

// longestSocket bounds the path of a Unix socket, in bytes: the system's own bound is 108, with a zero at the end.
const longestSocket = 107

// ParseSocket returns the path in an address such as unix:/run/sluice/auth.sock. The path is empty for an address of
// another form. The error reports what is wrong with the path, and how to write it.
func ParseSocket(address string) (path string, err error) {
	path, ok := strings.CutPrefix(address, socketPrefix)
	if !ok {
		return "", nil
	}
	if problem, suggestion := checkSocket(path); problem != "" {
		return "", fmt.Errorf("%s %s; %s", reader.Quote(address), problem, suggestion)
	}
	return path, nil
}

// checkSocket returns what is wrong with the path of a Unix socket, and a remedy.
func checkSocket(path string) (problem, suggestion string) {
	const form = "write unix: and the path from the root, as in unix:/run/sluice/auth.sock"
	switch clean := filepath.Clean(path); {
	case path == "":
		return "has no path", form
	case path[0] == '@':
		return "is an abstract socket, to which every program of this machine can connect", form + ": the file system then guards it"
	case strings.ContainsFunc(path, unicode.IsControl):
		return "has a control character in its path", form
	case !filepath.IsAbs(path):
		return "has a path that does not begin at the root", form
	case clean != path:
		return "has a path that is not in its shortest form", "write unix:" + clean
	case len(path) > longestSocket:
		return fmt.Sprintf("has a path of %d bytes, and the system takes at most %d", len(path), longestSocket), "give a shorter path, such as unix:/run/sluice/auth.sock"
	}
	return "", ""
}

// Socket returns the path of a listener at a Unix socket, and the permissions of its file. The path is empty for a
// listener at a host and port.
func (l Listener) Socket() (path string, mode fs.FileMode) {
	path, ok := strings.CutPrefix(l.Address, socketPrefix)
	if !ok {
		return "", 0
	}
	mode, problem := parseMode(l.Mode)
	if problem != "" {
		mode = defaultSocketMode
	}
	return path, mode
}

// parseMode reads the permissions of a file.
func parseMode(text string) (mode fs.FileMode, problem string) {
	if text == "" {
		return defaultSocketMode, ""
	}
	n, err := strconv.ParseUint(text, 8, 32)
	switch {
	case err != nil || len(text) < 3 || n > 0o777:
		return 0, "is not an octal number of permissions"
	case n&0o222 == 0:
		return 0, "lets nobody connect, because that needs the permission to write"
	}
	return fs.FileMode(n), ""
}

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
func (f *File) trustsAt(l Listener) (trusted bool, remedy string) {
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
