package config

import (
	"fmt"
	"net/url"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// HTTP bounds what one client can make the server hold.
type HTTP struct {
	// MaxHeaderSize bounds the headers of a request. It is at least 1KiB. Default: 64KiB.
	MaxHeaderSize reader.Size `yaml:"max_header_size"`
	// MaxBodySize bounds the body of a request to the API. Default: 1MiB.
	MaxBodySize reader.Size `yaml:"max_body_size"`
	// MaxProxyBodySize bounds the body of a request through the proxy, which streams bodies.
	// 0 means unbounded. Default: 0.
	MaxProxyBodySize reader.Size `yaml:"max_proxy_body_size"`
	// HeaderTimeout is how long a client may take to send its headers. Default: 10s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// ReadTimeout is how long a client may take to send a request to the API or the admin
	// listener. Default: 30s.
	ReadTimeout time.Duration `yaml:"read_timeout"`
	// IdleTimeout is how long a connection may be idle between requests. Default: 2m.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MinBodyRate is how many bytes a second a client must send of a request's body, or receive of a response, on
	// average over the time in which the proxy waits for it. 0B means no least rate. Default: 1KiB.
	MinBodyRate reader.Size `yaml:"min_body_rate"`
	// BodyGrace is how long the proxy waits for a client in addition to the time that min_body_rate gives it.
	// A pause always ends after a minute. Default: 20s.
	BodyGrace time.Duration `yaml:"body_grace"`
	// BodyTimeout is how long the proxy waits for a client to send the body of a request, in all. 0 means
	// unbounded. Default: 1h.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// MaxConnections bounds the connections of each listener. Further ones wait. 0 means unbounded. Default: 10000.
	MaxConnections int `yaml:"max_connections" unit:"connections"`
	// MaxConnectionsPerClient bounds the connections of each client address to each listener; further ones are
	// closed. An IPv6 client is its /64 network. It does not bound trusted_proxies. 0 means
	// unbounded. Default: 1000.
	MaxConnectionsPerClient int `yaml:"max_connections_per_client" unit:"connections"`
}

// Admin protects the calls that change state. Give token_file or token, not both.
type Admin struct {
	// Token is the bearer token of these calls. Prefer token_file: a file is easier to protect. Default: none.
	Token string `yaml:"token"`
	// TokenFile is a file that holds the token. White space around the token is ignored. Default: none.
	TokenFile string `yaml:"token_file" path:"read"`
}

// API protects the listeners api, grpc, json and resp. Without any of these settings they answer programs of this machine
// only. Give token_file or token, not both.
type API struct {
	// Token is the bearer token that callers send; the admin token is accepted too. Prefer token_file: a file is
	// easier to protect. Default: none.
	Token string `yaml:"token"`
	// TokenFile is a file that holds the token. White space around the token is ignored. Default: none.
	TokenFile string `yaml:"token_file" path:"read"`
	// Open answers everybody who reaches a listener without client_ca, whatever the Host header names. Anybody who reaches it can
	// then use up the budget of any key. Default: false.
	Open bool `yaml:"open"`
}

// Log configures the server's log.
type Log struct {
	// Level is the least severe level that is logged. Default: info.
	Level string `yaml:"level" oneof:"debug info warn error"`
	// Format is the form of each line. Default: text.
	Format string `yaml:"format" oneof:"text json"`
	// Sample is how many denials are logged per second, for all rules together. The others
	// are only counted. 0 logs none. Default: 10.
	Sample int `yaml:"sample" unit:"denials per second"`
	// KeySecretFile is a file that holds the secret of the fingerprints of keys, in the log and in
	// sluice keys. Servers with the same secret have the same fingerprints. White space around it is ignored. Give
	// key_secret_file, key_secret_env or neither. Default: none; the secret is random and ends with the process.
	KeySecretFile string `yaml:"key_secret_file" path:"read"`
	// KeySecretEnv is the environment variable that holds the secret. Default: none.
	KeySecretEnv string `yaml:"key_secret_env"`
}

// AccessLog is a log of decisions. A decision never waits for it: if the file is too slow, lines are lost and counted.
type AccessLog struct {
	// File is where each decision becomes a line. It is a path, stdout or stderr. If the file is renamed, the next line begins
	// a new one. Default: none.
	File string `yaml:"file" path:"written"`
	// Format is the form of a line: an object of JSON, or the combined format of web servers. Default: json.
	Format string `yaml:"format" oneof:"json combined"`
	// Sample is the part of the decisions that is logged, at random. Default: 100%.
	Sample reader.Ratio `yaml:"sample"`
}

// Tracing sends a span of each request through the proxy to a collector of OpenTelemetry, with the decision as
// attributes. Traces of trusted_proxies are continued; other clients begin a new trace.
type Tracing struct {
	// Endpoint is the URL of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318. Its headers and certificates come from
	// the OTEL_EXPORTER_OTLP_ variables. Default: none.
	Endpoint string `yaml:"endpoint"`
	// Sample is the part of the traces that begin here and are sent. Default: 1%.
	Sample reader.Ratio `yaml:"sample"`
}

func (t *Tracing) check(s *reader.Source) {
	if t.Sample < 0 || t.Sample > 1 {
		s.Follow("tracing.sample", fmt.Sprintf("is %v", t.Sample), "give 0 to 100%")
	}
	if t.Endpoint == "" {
		s.Idle("tracing.sample", false, "is given, and tracing.endpoint is not", "give the URL of a collector, or remove it")
		return
	}
	if target, err := url.Parse(t.Endpoint); err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		s.Follow("tracing.endpoint", "is not the URL of a collector", "write it as http://127.0.0.1:4318")
	} else if target.User != nil {
		s.Follow("tracing.endpoint", "has a user in it", "set OTEL_EXPORTER_OTLP_HEADERS in the environment")
	}
}

// Audit is a log of who changed what.
type Audit struct {
	// File is where each change becomes a line of JSON: bans, resets, reloads, new certificates, starts and stops, and refused
	// calls. It is a path, stdout or stderr. If the file is renamed, the next line begins a new one. While it cannot be written,
	// bans and resets fail and change nothing. Default: none.
	File string `yaml:"file" path:"written"`
}

func (l *AccessLog) check(s *reader.Source) {
	if l.Sample <= 0 || l.Sample > 1 {
		s.Follow("access_log.sample", fmt.Sprintf("is %v", l.Sample), "give more than 0 and at most 100%, or leave file out to log nothing")
	}
	if l.File == "" {
		s.Idle("access_log.format", false, "is given, and access_log.file is not", "give a file, or remove it")
		s.Idle("access_log.sample", false, "is given, and access_log.file is not", "give a file, or remove it")
	}
}
