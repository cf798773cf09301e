package policyfile

import "time"

// Listen says where the server listens. Defaults are on loopback.
type Listen struct {
	// Proxy takes the traffic. Default: 127.0.0.1:8080.
	Proxy Listener `yaml:"proxy"`
	// API answers questions of other programs. Default: 127.0.0.1:8081.
	API Listener `yaml:"api"`
	// Admin serves health, metrics and the calls that change state. Default: 127.0.0.1:9090.
	// Elsewhere than on loopback it needs an admin token.
	Admin Listener `yaml:"admin"`
}

// Listener is an address, "host:port", or "off". To serve TLS, it is written as a mapping.
type Listener struct {
	// Address is host:port; empty if the listener is off.
	Address string `yaml:"address"`
	// TLS is the server's certificate; nil for plain HTTP.
	TLS *TLS `yaml:"tls"`
}

func (*Listener) short(list bool) string { return single("address", list) }

// Off reports whether the listener is turned off.
func (l Listener) Off() bool { return l.Address == "" }

// TLS is a listener's certificate.
type TLS struct {
	// Cert is the file of the certificate chain, in PEM. Required.
	Cert string `yaml:"cert"`
	// Key is the file of the private key, in PEM. Required.
	Key string `yaml:"key"`
	// MinVersion is "1.2" or "1.3". Default: 1.2.
	MinVersion string `yaml:"min_version" oneof:"1.2 1.3"`
}

// HTTP bounds what one client can make the server hold.
type HTTP struct {
	// MaxHeaderSize bounds the headers of a request. Default: 64KiB.
	MaxHeaderSize Size `yaml:"max_header_size"`
	// MaxBodySize bounds the body of a request to the API. Default: 1MiB.
	MaxBodySize Size `yaml:"max_body_size"`
	// MaxProxyBodySize bounds the body of a request through the proxy. Default: 0, unbounded,
	// because bodies are streamed.
	MaxProxyBodySize Size `yaml:"max_proxy_body_size"`
	// HeaderTimeout is how long a client may take to send its headers. Default: 10s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// ReadTimeout is how long a client may take to send a request to the API or the admin
	// listener. Default: 30s.
	ReadTimeout time.Duration `yaml:"read_timeout"`
	// IdleTimeout is how long a connection may lie idle between requests. Default: 2m.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxConnections bounds the connections of each listener. Default: 0, unbounded.
	MaxConnections int `yaml:"max_connections"`
}

// Admin protects the calls that change state.
type Admin struct {
	// Token is the bearer token that they need.
	Token string `yaml:"token"`
	// TokenFile is a file that holds the token; white space around it is ignored. Give one of both.
	TokenFile string `yaml:"token_file"`
}

// Log is the server's log.
type Log struct {
	// Level is debug, info, warn or error. Default: info.
	Level string `yaml:"level" oneof:"debug info warn error"`
	// Format is text or json. Default: text.
	Format string `yaml:"format" oneof:"text json"`
	// Sample is how many denials are logged a second, over all rules; the others
	// are only counted. Default: 10; 0 logs none.
	Sample int `yaml:"sample"`
}
