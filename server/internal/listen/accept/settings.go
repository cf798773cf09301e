package accept

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Listener is an address: host:port, unix:PATH, or off. To serve TLS, write it as a mapping.
type Listener struct {
	// Address is the host and port, such as 127.0.0.1:8080, the path of a Unix socket, such as
	// unix:/run/sluice/auth.sock, or off.
	Address string `yaml:"address" number:"write host:port, as in 127.0.0.1:"`
	// Mode is the permissions of the file of a Unix socket, as an octal number in quotes. A program that connects
	// needs the permission to write. Default: 0660.
	Mode string `yaml:"mode"`
	// TLS is the server's certificate. Default: none, for plain HTTP.
	TLS *TLS `yaml:"tls"`
	// ProxyProtocol reads the address of the client from a header of the PROXY protocol, with which connections of
	// trusted_proxies must begin. The header of another peer is an error. Default: false.
	ProxyProtocol bool `yaml:"proxy_protocol"`
	// ReusePort lets another process of the same user listen at the address too, so that a new server can start before
	// the old one drains. A server that drains leaves new connections to the other. Default: false.
	ReusePort bool `yaml:"reuse_port"`
}

// Drain is how a server leaves.
type Drain struct {
	// Delay is how long the server still accepts connections after SIGTERM, while the readiness probe answers that it is
	// not ready: longer than balancers need to notice. DrainTimeout begins after it. Default: 0s.
	Delay time.Duration `yaml:"delay"`
}

// Short implements [reader.Shorthand].
func (*Listener) Short(list bool) string { return reader.Single("address", list) }

// Written implements [reader.Written].
func (l Listener) Written() string {
	switch {
	case l.Off():
		return "off"
	case l == Listener{Address: l.Address}:
		return reader.Scalar(l.Address)
	}
	return ""
}

// Off reports whether the listener is turned off.
func (l Listener) Off() bool { return l.Address == "" }

// TLS is a listener's certificate.
type TLS struct {
	// Cert is the file of the certificate chain, in PEM. Required.
	Cert string `yaml:"cert" path:"read"`
	// Key is the file of the private key, in PEM. Required.
	Key string `yaml:"key" path:"read"`
	// MinVersion is the lowest version of TLS that clients may use. Default: 1.2.
	MinVersion string `yaml:"min_version" oneof:"1.2 1.3"`
	// ClientCA is a file of authorities, in PEM. Clients must then have a certificate of one of them. Default: none.
	ClientCA string `yaml:"client_ca" path:"read"`
}

// RequiresClient reports whether clients need a certificate. It is false for a nil TLS.
func (t *TLS) RequiresClient() bool { return t != nil && t.ClientCA != "" }

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

// Host returns the host of the address. A Unix socket has no host. The address is not fixed if the system chooses the port.
func (l Listener) Host() (host string, fixed bool, problem, suggestion string) {
	if path, ok := strings.CutPrefix(l.Address, socketPrefix); ok {
		problem, suggestion = checkSocket(path)
		return "", true, problem, suggestion
	}
	host, port, problem := reader.SplitAddress(l.Address)
	return host, port != 0, problem, `write host:port as in 127.0.0.1:8080, unix:/PATH, or "off"`
}

// Loopback reports whether only this machine reaches a host.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// Check checks the settings at a path.
func (t *TLS) Check(s *reader.Source, path string) {
	if t.Cert == "" {
		s.Follow(path+".cert", "is missing", "give the file of the certificate, in PEM")
	}
	if t.Key == "" {
		s.Follow(path+".key", "is missing", "give the file of the private key, in PEM")
	}
	if s.Has(path+".client_ca") && t.ClientCA == "" {
		s.Follow(path+".client_ca", "is empty", "give the file of the authorities, in PEM, or remove the line")
	}
}

// CheckMode checks the permissions at the path of the listener.
func (l Listener) CheckMode(s *reader.Source, path string) {
	if _, problem := parseMode(l.Mode); problem != "" {
		s.Follow(path+".mode", reader.Quote(l.Mode)+" "+problem, `write it as in "0660"`)
	}
}
