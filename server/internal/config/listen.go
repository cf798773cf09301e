package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Listen holds the addresses at which the server listens. The defaults are on loopback.
type Listen struct {
	// Proxy takes the traffic and passes it on to the upstream. Default: "127.0.0.1:8080".
	Proxy Listener `yaml:"proxy"`
	// API decides requests of other programs. At an address other than loopback it needs a token of its own, client
	// certificates, or open: true in the section api. Default: "127.0.0.1:8081".
	API Listener `yaml:"api"`
	// Admin serves health, metrics and the calls that change state. At an address other than loopback
	// it needs an admin token or client certificates. Default: "127.0.0.1:9090".
	Admin Listener `yaml:"admin"`
	// Auth decides for gateways that describe each request over HTTP, such as nginx with auth_request. It answers
	// only trusted_proxies. Default: off.
	Auth Listener `yaml:"auth"`
	// GRPC decides for gateways that call over gRPC: Envoy's rate limit service and its external authorization.
	// The section api holds for it as for the API. Default: off.
	GRPC Listener `yaml:"grpc"`
	// JSON decides for clients of Envoy's rate limit service that send POST /json, and answers /healthcheck. The section
	// api holds for it as for the API. Default: off.
	JSON Listener `yaml:"json"`
	// SPOE decides for HAProxy over its stream processing protocol. It answers only trusted_proxies. Default: off.
	SPOE Listener `yaml:"spoe"`
	// RESP decides for clients of Redis, over the protocol of Redis. The section api holds for it as for the API. Default: off.
	RESP Listener `yaml:"resp"`
}

// listenerAccess is who may call a listener.
type listenerAccess uint8

const (
	forEverybody listenerAccess = iota
	forOperators                // as the section admin allows
	forCallers                  // as the section api allows
	forProxies                  // trusted_proxies
)

// namedListener is a listener and its path in a file.
type namedListener struct {
	path string
	*Listener
	access listenerAccess
}

// all returns the listeners, each with its path in a file.
func (l *Listen) all() []namedListener {
	return []namedListener{
		{"listen.proxy", &l.Proxy, forEverybody},
		{"listen.api", &l.API, forCallers},
		{"listen.admin", &l.Admin, forOperators},
		{"listen.auth", &l.Auth, forProxies},
		{"listen.grpc", &l.GRPC, forCallers},
		{"listen.json", &l.JSON, forCallers},
		{"listen.spoe", &l.SPOE, forProxies},
		{"listen.resp", &l.RESP, forCallers},
	}
}

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
}

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

func (f *File) checkListen(s *reader.Source) {
	at := map[string]string{}
	for _, l := range f.Listen.all() {
		if l.Address == "off" {
			l.Address = ""
		}
		if l.TLS != nil {
			l.TLS.check(s, l.path+".tls")
		}
		if l.Off() {
			continue
		}
		path := l.path
		if s.Has(path + ".address") {
			path += ".address"
		}
		host, fixed, problem, suggestion := listenAddress(l.Address)
		if problem != "" {
			s.Follow(path, reader.Quote(l.Address)+" "+problem, suggestion)
			continue
		}
		if other := at[l.Address]; other != "" && fixed {
			s.Follow(path, fmt.Sprintf("%s is the address of %s too", reader.Quote(l.Address), other), "give each listener its own")
		}
		at[l.Address] = l.path
		if _, problem := parseMode(l.Mode); problem != "" {
			s.Follow(l.path+".mode", reader.Quote(l.Mode)+" "+problem, `write it as in "0660"`)
		}
		if trusted, remedy := f.trustsAt(*l.Listener); l.ProxyProtocol && !trusted {
			s.Follow(l.path+".proxy_protocol", "is true, and no peer may send the header", remedy)
		}
		f.checkAccess(s, path, host, l)
	}
}

// checkAccess checks that not everybody gets an answer of a listener that is not for everybody.
func (f *File) checkAccess(s *reader.Source, path, host string, l namedListener) {
	if l.access == forProxies {
		if trusted, remedy := f.trustsAt(*l.Listener); !trusted {
			s.Follow(path, "answers only trusted_proxies, and none of them can connect there", remedy)
		}
		return
	}
	if socket, _ := l.Socket(); socket != "" || loopback(host) || l.TLS.RequiresClient() {
		return
	}
	problem := fmt.Sprintf("%s is reachable by others, and there is no token", reader.Quote(l.Address))
	switch {
	case l.access == forOperators && f.Admin == (Admin{}) && !s.Failed("admin"):
		s.Follow(path, problem, "listen on 127.0.0.1, or give admin.token_file, or client_ca under tls")
	case l.access == forCallers && f.API == (API{}) && !s.Failed("api"):
		s.Follow(path, problem, "listen on 127.0.0.1, or give api.token_file, client_ca under tls, or api.open: true to answer everybody")
	}
}

// listenAddress reads the address of a listener. A Unix socket has no host. The address is not fixed if the system chooses
// the port.
func listenAddress(address string) (host string, fixed bool, problem, suggestion string) {
	if path, ok := strings.CutPrefix(address, socketPrefix); ok {
		problem, suggestion = checkSocket(path)
		return "", true, problem, suggestion
	}
	host, port, problem := reader.SplitAddress(address)
	return host, port != 0, problem, `write host:port as in 127.0.0.1:8080, unix:/PATH, or "off"`
}

// loopback reports whether only this machine reaches a host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (t *TLS) check(s *reader.Source, path string) {
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
