package web

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Settings bounds what one client can make the server hold.
type Settings struct {
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

// Default returns the defaults of the settings.
func Default() Settings {
	return Settings{
		MaxHeaderSize: 64 << 10,
		MaxBodySize:   1 << 20,
		HeaderTimeout: 10 * time.Second,
		ReadTimeout:   30 * time.Second,
		IdleTimeout:   2 * time.Minute,
		MinBodyRate:   1 << 10,
		BodyGrace:     20 * time.Second,
		BodyTimeout:   time.Hour,

		MaxConnections:          10_000,
		MaxConnectionsPerClient: 1000,
	}
}

// Check checks the settings, which are the section http.
func (h *Settings) Check(s *reader.Source) {
	if h.MaxHeaderSize < 1<<10 {
		s.Follow("http.max_header_size", fmt.Sprintf("is %v, too little for a request", h.MaxHeaderSize), "give 1KiB or more")
	}
	if h.MaxBodySize < 1 {
		s.Follow("http.max_body_size", "is 0, which no request to the API fits", "give a size such as 1MiB")
	}
	if s.Has("http.body_grace") && h.MinBodyRate == 0 {
		s.Follow("http.body_grace", "has no effect, because min_body_rate is 0", "remove it, or give a rate such as 1KiB")
	}
	if h.MinBodyRate > 0 && h.BodyGrace == 0 {
		s.Follow("http.body_grace", "is 0, which ends a body whose first byte is not there at once", "give a time such as 20s")
	}
	if n, all := h.MaxConnectionsPerClient, h.MaxConnections; s.Has("http.max_connections_per_client") && all > 0 && n > all {
		s.Follow("http.max_connections_per_client", fmt.Sprintf("is %d, more than max_connections, %d", n, all), "give less, so that one client cannot take all")
	}
	if h.HeaderTimeout == 0 {
		s.Follow("http.header_timeout", "is 0, which lets slow clients hold connections for ever", "give a time such as 10s")
	}
}
