package config

import (
	"fmt"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

// Listen holds the addresses at which the server listens. The defaults are on loopback.
type Listen struct {
	// Proxy takes the traffic and passes it on to the upstream. Default: "127.0.0.1:8080".
	Proxy accept.Listener `yaml:"proxy"`
	// API decides requests of other programs. At an address other than loopback it needs a token of its own, client
	// certificates, or open: true in the section api. Default: "127.0.0.1:8081".
	API accept.Listener `yaml:"api"`
	// Admin serves health, metrics and the calls that change state. At an address other than loopback
	// it needs an admin token or client certificates. Default: "127.0.0.1:9090".
	Admin accept.Listener `yaml:"admin"`
	// Auth decides for gateways that describe each request over HTTP, such as nginx with auth_request. It answers
	// only trusted_proxies. Default: off.
	Auth accept.Listener `yaml:"auth"`
	// GRPC decides for gateways that call over gRPC: Envoy's rate limit service and its external authorization.
	// The section api holds for it as for the API. Default: off.
	GRPC accept.Listener `yaml:"grpc"`
	// JSON decides for clients of Envoy's rate limit service that send POST /json, and answers /healthcheck. The section
	// api holds for it as for the API. Default: off.
	JSON accept.Listener `yaml:"json"`
	// SPOE decides for HAProxy over its stream processing protocol. It answers only trusted_proxies. Default: off.
	SPOE accept.Listener `yaml:"spoe"`
	// RESP decides for clients of Redis, over the protocol of Redis. The section api holds for it as for the API.
	// Default: off.
	RESP accept.Listener `yaml:"resp"`
}

// All returns the listeners. Each has a row.
func (l *Listen) All() []accept.NamedListener {
	return []accept.NamedListener{
		{Name: "proxy", Listener: &l.Proxy, Audience: access.Everybody, Usage: "where traffic arrives"},
		{Name: "api", Listener: &l.API, Audience: access.Programs, Usage: "where other programs get decisions"},
		{Name: "auth", Listener: &l.Auth, Audience: access.Proxies, Usage: "where gateways get decisions over HTTP"},
		{Name: "admin", Listener: &l.Admin, Audience: access.Operators, Usage: "where operators get metrics and reset keys"},
		{Name: "grpc", Listener: &l.GRPC, Audience: access.Programs, Usage: "where Envoy gets decisions over gRPC"},
		{Name: "json", Listener: &l.JSON, Audience: access.Programs, Usage: "where clients of Envoy's rate limit service get decisions over HTTP"},
		{Name: "spoe", Listener: &l.SPOE, Audience: access.Proxies, Usage: "where HAProxy gets decisions"},
		{Name: "resp", Listener: &l.RESP, Audience: access.Programs, Usage: "where clients of Redis get decisions"},
	}
}

func (f *File) checkListen(s *reader.Source) {
	at := map[string]string{}
	for _, l := range f.Listen.All() {
		if l.Address == "off" {
			l.Address = ""
		}
		if l.TLS != nil {
			l.TLS.Check(s, l.Path()+".tls")
		}
		if l.Off() {
			continue
		}
		path := l.Path()
		if s.Has(path + ".address") {
			path += ".address"
		}
		host, fixed, problem, suggestion := l.Host()
		if problem != "" {
			s.Follow(path, reader.Quote(l.Address)+" "+problem, suggestion)
			continue
		}
		if other := at[l.Address]; other != "" && fixed {
			s.Follow(path, fmt.Sprintf("%s is the address of %s too", reader.Quote(l.Address), other), "give each listener its own")
		}
		at[l.Address] = l.Path()
		l.CheckMode(s, l.Path())
		f.checkReusePort(s, &l)
		if trusted, remedy := f.trustsAt(*l.Listener); l.ProxyProtocol && !trusted {
			s.Follow(l.Path()+".proxy_protocol", "is true, and no peer may send the header", remedy)
		}
		f.checkAccess(s, path, host, &l)
	}
}

// checkAccess checks that not everybody gets an answer of a listener that is not for everybody.
func (f *File) checkAccess(s *reader.Source, path, host string, l *accept.NamedListener) {
	if l.Audience == access.Proxies {
		if trusted, remedy := f.trustsAt(*l.Listener); !trusted {
			s.Follow(path, "answers only trusted_proxies, and none of them can connect there", remedy)
		}
		return
	}
	if socket, _ := l.Socket(); socket != "" || accept.Loopback(host) || l.TLS.RequiresClient() {
		return
	}
	problem := fmt.Sprintf("%s is reachable by others, and there is no token", reader.Quote(l.Address))
	switch {
	case l.Audience == access.Operators && f.Admin == (access.Admin{}) && !s.Failed("admin"):
		s.Follow(path, problem, "listen on 127.0.0.1, or give admin.token_file, or client_ca under tls")
	case l.Audience == access.Programs && !f.API.Admits() && !s.Failed("api"):
		s.Follow(path, problem, "listen on 127.0.0.1, or give api.token_file, client_ca under tls, or api.open: true to answer everybody")
	}
}

// checkReusePort checks that two servers can run at once, as reuse_port wants.
func (f *File) checkReusePort(s *reader.Source, l *accept.NamedListener) {
	at := l.Path() + ".reuse_port"
	switch path, _ := l.Socket(); {
	case !l.ReusePort:
	case path != "":
		s.Follow(at, "is true, and the address is the path of a Unix socket", "remove it, or give an address as HOST:PORT")
	case f.Store.Redis == nil && f.Store.Memory.File != "":
		s.Follow(at, "is true, and two servers cannot share store.memory.file",
			"let systemd pass the socket instead, as sluice.socket does, or share limits through store.redis")
	}
}
