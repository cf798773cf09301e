// Package config has the configuration file of the server: the settings of its rooms, and rules.
//
// It composes the sections of the file, and checks what concerns several of them.
package config

import (
	"slices"
	"time"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/listen/web"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"
	"github.com/sluicehq/sluice/server/internal/store/local"
)

// File is the content of a configuration file, with defaults for settings that it lacks.
type File struct {
	// Version is the version of the format, always 1. Required.
	Version int `yaml:"version" remedy:"write version: 1"`
	// Store is where the server keeps what keys have used. Default: "memory".
	Store Store `yaml:"store"`
	// Listen holds the addresses at which the server listens.
	Listen Listen `yaml:"listen"`
	// Upstream is the service behind the proxy. Default: a built-in service that echoes requests.
	Upstream proxy.Upstream `yaml:"upstream"`
	// TrustedProxies are addresses and networks of proxies whose forwarding headers are believed, and unix for
	// peers at Unix sockets, which have no address. Default: none, so the client is the peer of the connection.
	TrustedProxies []Proxy `yaml:"trusted_proxies"`
	// TrustMarks believes the marks that trusted proxies set on requests: Sluice-Marked, and headers that rules of
	// this file set. Trust only proxies that remove such headers from what their own clients send, as Sluice does.
	// Default: false.
	TrustMarks bool `yaml:"trust_marks"`
	// Headers selects the response headers that inform clients of their limits: with ietf RateLimit and
	// RateLimit-Policy, with openai X-RateLimit-Limit-Requests and -Tokens, -Remaining and -Reset, otherwise
	// X-RateLimit-Limit, -Remaining and -Reset in several spellings. With none, a denial still has Retry-After.
	// Default: ietf.
	Headers HeaderProfile `yaml:"headers" oneof:"ietf x-ratelimit x-rate-limit ratelimit openai none"`
	// HeaderNames gives the headers of x-ratelimit, x-rate-limit and ratelimit other names. Default: none.
	HeaderNames HeaderNames `yaml:"header_names"`
	// Jitter is the longest time that is added at random to Retry-After and similar headers, so that
	// clients do not all return at once. Default: 0s.
	Jitter time.Duration `yaml:"jitter"`
	// HTTP bounds what one client can make the server hold.
	HTTP web.Settings `yaml:"http"`
	// Admin protects the calls that change state.
	Admin access.Admin `yaml:"admin"`
	// API protects the decision API.
	API access.API `yaml:"api"`
	// Log configures the server's log.
	Log telemetry.Settings `yaml:"log"`
	// AccessLog is a log of decisions.
	AccessLog accesslog.Settings `yaml:"access_log"`
	// Tracing sends spans to a collector of OpenTelemetry.
	Tracing tracing.Settings `yaml:"tracing"`
	// Audit is a log of who changed what.
	Audit audit.Settings `yaml:"audit"`
	// NearLimit is the part of a limit from which on the metrics of descriptors count hits as near the limit. Default: 80%.
	NearLimit reader.Ratio `yaml:"near_limit"`
	// ScaleOut informs other programs of the pressure on rules.
	ScaleOut ScaleOut `yaml:"scale_out"`
	// Drain is what the server does after SIGTERM before it ends.
	Drain accept.Drain `yaml:"drain"`
	// DrainTimeout is how long requests in flight may take to end after SIGTERM. Default: 30s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`

	rules.File
}

// Unknown has a remedy for a setting that belongs elsewhere.
func (*File) Unknown(name, _ string) string {
	switch name {
	case "limit", "limits":
		return "give limits to a rule; the bounds of requests and connections are under http"
	}
	return ""
}

// Default returns a File with all defaults and no rules.
func Default() *File {
	return &File{
		Version: 1,
		Store:   Store{Memory: local.Default()},
		Listen: Listen{
			Proxy: accept.Listener{Address: "127.0.0.1:8080"},
			API:   accept.Listener{Address: "127.0.0.1:8081"},
			Admin: accept.Listener{Address: "127.0.0.1:9090"},
		},
		Upstream:     proxy.DefaultUpstream(),
		Headers:      HeadersIETF,
		HTTP:         web.Default(),
		AccessLog:    accesslog.Default(),
		Tracing:      tracing.Default(),
		Log:          telemetry.Default(),
		NearLimit:    0.8,
		DrainTimeout: 30 * time.Second,
		File:         rules.Default(),
	}
}

// Load reads a file and the other files that it names. Relative paths begin at the file's folder. It
// returns only a valid File. If a file has mistakes, the error is a [reader.Errors].
func Load(path string) (*File, error) {
	return valid(func(f *File) error { return rules.Load(path, f) })
}

// Parse is Load for the content of a file without a folder. Errors show name as the name of the file.
func Parse(name string, data []byte) (*File, error) {
	return valid(func(f *File) error { return rules.Parse(name, data, f) })
}

// valid returns a File with the defaults that a function read.
func valid(read func(f *File) error) (*File, error) {
	f := Default()
	if err := read(f); err != nil {
		return nil, err
	}
	return f, nil
}

// Validate checks a File that a program made or changed, as Parse checks its content.
func (f *File) Validate() error { return rules.Validate(f) }

//go:generate go test -run TestSchemaMatchesTypes -update .

// Differences returns the settings in which two files differ; see [reader.Differences].
func Differences(a, b *File) []string { return reader.Differences(a, b) }

// ChangedFiles returns the other files whose content differs; see [rules.ChangedFiles].
func ChangedFiles(a, b *File) []string { return rules.ChangedFiles(&a.File, &b.File) }

// Emptied returns an error if f lacks what an earlier content of the file had; see [rules.File.Emptied].
func (f *File) Emptied(earlier *File) error { return f.File.Emptied(&earlier.File) }

// YAML returns the file as text that Parse reads: the version, the settings that differ from their defaults, and the
// rules. Each setting of a rule has a line.
func (f *File) YAML() []byte {
	defaults := Default()
	defaults.Version = 0 // it is always written
	return reader.Write(f, defaults, "rules")
}

// Variables returns the names of the environment variables that f names.
func (f *File) Variables() []string {
	names := []string{f.Log.KeySecretEnv}
	if r := f.Store.Redis; r != nil {
		names = append(names, r.PasswordEnv)
		if r.HashKeys != nil {
			names = append(names, r.HashKeys.SecretEnv)
		}
		if r.Sentinel != nil {
			names = append(names, r.Sentinel.PasswordEnv)
		}
	}
	if f.ScaleOut.Webhook != nil {
		names = append(names, f.ScaleOut.Webhook.SecretEnv)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// LoadEnvoy returns a File with the rules of a folder of Envoy's rate limit service, and with defaults; see [envoy.Load].
func LoadEnvoy(folder string, o envoy.Options) (*File, error) {
	imported, err := envoy.Load(folder, o)
	if err != nil {
		return nil, err
	}
	f := Default()
	f.File = *imported
	return f, nil
}
