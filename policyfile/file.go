package policyfile

import (
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
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
	Upstream Upstream `yaml:"upstream"`
	// TrustedProxies are addresses and networks of proxies whose forwarding headers are believed, and unix for
	// peers at Unix sockets, which have no address. Default: none, so the client is the peer of the connection.
	TrustedProxies []Proxy `yaml:"trusted_proxies"`
	// TrustMarks believes the marks that trusted proxies set on requests: Sluice-Marked, and headers that rules of
	// this file set. Trust only proxies that remove such headers from what their own clients send, as Sluice does.
	// Default: false.
	TrustMarks bool `yaml:"trust_marks"`
	// IPv6Prefix is how many leading bits of an IPv6 address identify a client. Default: 64.
	IPv6Prefix int `yaml:"ipv6_prefix" unit:"bits"`
	// Paths holds how paths are cleaned before they are matched.
	Paths Paths `yaml:"paths"`
	// Headers selects the response headers that inform clients of their limits: with ietf RateLimit and
	// RateLimit-Policy, otherwise X-RateLimit-Limit, -Remaining and -Reset in several spellings. With none, a denial
	// still has Retry-After. Default: ietf.
	Headers HeaderProfile `yaml:"headers" oneof:"ietf x-ratelimit x-rate-limit ratelimit none"`
	// HeaderNames gives the headers of x-ratelimit, x-rate-limit and ratelimit other names. Default: none.
	HeaderNames HeaderNames `yaml:"header_names"`
	// Jitter is the longest time that is added at random to Retry-After and similar headers, so that
	// clients do not all return at once. Default: 0s.
	Jitter time.Duration `yaml:"jitter"`
	// HTTP bounds what one client can make the server hold.
	HTTP HTTP `yaml:"http"`
	// Admin protects the calls that change state.
	Admin Admin `yaml:"admin"`
	// API protects the decision API.
	API API `yaml:"api"`
	// Log configures the server's log.
	Log Log `yaml:"log"`
	// AccessLog is a log of decisions.
	AccessLog AccessLog `yaml:"access_log"`
	// Tracing sends spans to a collector of OpenTelemetry.
	Tracing Tracing `yaml:"tracing"`
	// Audit is a log of who changed what.
	Audit Audit `yaml:"audit"`
	// NearLimit is the part of a limit from which on the metrics of descriptors count hits as near the limit. Default: 80%.
	NearLimit reader.Ratio `yaml:"near_limit"`
	// ScaleOut informs other programs of the pressure on rules.
	ScaleOut ScaleOut `yaml:"scale_out"`
	// DrainTimeout is how long requests in flight may take to end after SIGTERM. Default: 30s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Default is what happens to a request that no rule matches. Default: allow.
	Default policy.Action `yaml:"default" oneof:"allow - - deny"`
	// OnStoreError applies to rules without their own on_store_error. It has no effect with the memory
	// store, which does not fail. With local, each server limits by itself; see store.redis.local. Default: allow.
	OnStoreError policy.Fallback `yaml:"on_store_error" oneof:"- allow deny local"`
	// Shadow sets shadow for all rules: decisions are counted and explained, not enforced.
	// Default: false.
	Shadow bool `yaml:"shadow"`
	// Classes are kinds of traffic. Rules can match classes and reserve shares for them.
	Classes []Class `yaml:"classes"`
	// Domains are domains of descriptors that exist even if no rule matches their descriptors, so that a gateway
	// can send limits of its own for them. Default: the domains of the rules.
	Domains []string `yaml:"domains"`
	// Rules are the policy. Every rule that matches a request must let it pass. Default: none.
	Rules []Rule `yaml:"rules" form:"list" null:"give rules, or write rules: [] for none"`

	source   *reader.Source
	included included
	parts    []*File // the files of a folder that LoadEnvoy read
}

// Unknown has a remedy for a setting that belongs elsewhere.
func (*File) Unknown(name, text string) string {
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
		Store:   Store{Memory: MemoryStore{WhenFull: "share", SaveEvery: time.Second}},
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
			Upgrades:        []string{"websocket"},
		},
		IPv6Prefix: 64,
		Paths:      Paths{EncodedSlash: "any"},
		Headers:    HeadersIETF,
		HTTP: HTTP{
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
		},
		AccessLog:    AccessLog{Format: "json", Sample: 1},
		Tracing:      Tracing{Sample: 0.01},
		Log:          Log{Level: "info", Format: "text", Sample: 10},
		NearLimit:    0.8,
		DrainTimeout: 30 * time.Second,
		Default:      policy.Allow,
		OnStoreError: policy.FallbackAllow,
	}
}

// Load reads a file and the other files that it names. Relative paths begin at the file's folder. It
// returns only a valid File. If a file has mistakes, the error is an Errors.
func Load(path string) (*File, error) {
	data, err := reader.ReadFile(path)
	var bad Errors
	switch {
	case errors.As(err, &bad):
		return nil, bad
	case err != nil:
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	return parseIn(path, data, included{folder: filepath.Dir(path)})
}

// Parse reads the content of a file. Errors show name as the name of the file. A relative path of
// another file is a mistake here, because there is no folder. Parse returns only a valid File. If the
// content has mistakes, the error is an Errors.
func Parse(name string, data []byte) (*File, error) {
	if err := reader.CheckSize(name, data, strconv.Itoa(len(data))); err != nil {
		return nil, err
	}
	return parseIn(name, data, included{})
}

// parseIn is Parse for text of any size, with the folder of the file, or with the other files that it names.
func parseIn(name string, data []byte, in included) (*File, error) {
	s := reader.New(name, data)
	f := Default()
	if !s.Decode(f) {
		return nil, s.Err()
	}
	f.source, f.included = s, in
	if !s.Full() {
		f.check(s)
		f.compile(s)
		f.checkEffects(s)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Policy compiles the rules of the file. It returns no error for a File that Load or Parse
// returned and that has not changed since. Otherwise the error is an Errors.
func (f *File) Policy() (*policy.Policy, error) {
	s := f.blank()
	p := f.compile(s)
	if err := s.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Validate checks a File that a program made or changed, as Parse checks its content.
// The error is an Errors.
func (f *File) Validate() error {
	s := f.blank()
	f.check(s)
	f.compile(s)
	f.checkEffects(s)
	return s.Err()
}

// blank returns the source with its positions and without mistakes.
func (f *File) blank() *reader.Source { return f.source.Blank() }

// Paths holds how paths are cleaned before they are matched.
type Paths struct {
	// IgnoreCase matches paths without regard to case, for services that route so. Default: false.
	IgnoreCase bool `yaml:"ignore_case"`
	// EncodedSlash is what the service takes %2F in a path for: part of its segment (keep), as Express and Go's
	// ServeMux, or a slash (decode), as nginx, Flask and hypercorn. With any, requests must pass the rules of all
	// such path variants. Default: any.
	EncodedSlash string `yaml:"encoded_slash" oneof:"any keep decode"`
	// StripParams removes what follows a semicolon in a segment. Default: false.
	StripParams bool `yaml:"strip_params"`
}

// Differences returns the settings in which two files differ, such as "rules" or
// "listen.proxy.address", in the order of the documentation. Lists, and values that only one
// of the files has, are compared as a whole.
func Differences(a, b *File) []string { return reader.Differences(a, b) }

//go:generate go test -run TestSchemaMatchesTypes -update .

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of files, for editors. It has the type, default and description of each
// setting. A file that fulfills the schema can still have mistakes, which Parse finds.
func Schema() []byte { return slices.Clone(schema) }
