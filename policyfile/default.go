package policyfile

import (
	"time"

	"github.com/sluicehq/sluice/policy"
)

// Default returns what a file without settings says: all defaults, and no rules.
func Default() *File {
	return &File{
		Version: 1,
		Store:   Store{Memory: MemoryStore{WhenFull: "share"}},
		Listen: Listen{
			Proxy: Listener{Address: "127.0.0.1:8080"},
			API:   Listener{Address: "127.0.0.1:8081"},
			Admin: Listener{Address: "127.0.0.1:9090"},
		},
		Upstream: Upstream{
			ConnectTimeout:  5 * time.Second,
			ResponseTimeout: time.Minute,
			IdleTimeout:     90 * time.Second,
			PreserveHost:    true,
		},
		IPv6Prefix: 64,
		Paths:      Paths{EncodedSlash: "keep"},
		Headers:    HeadersIETF,
		HTTP: HTTP{
			MaxHeaderSize: 64 << 10,
			MaxBodySize:   1 << 20,
			HeaderTimeout: 10 * time.Second,
			ReadTimeout:   30 * time.Second,
			IdleTimeout:   2 * time.Minute,
		},
		Log:          Log{Level: "info", Format: "text", Sample: 10},
		DrainTimeout: 30 * time.Second,
		Default:      policy.Allow,
		OnStoreError: policy.FallbackAllow,
	}
}
