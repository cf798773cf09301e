package policyfile

import (
	_ "embed"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/sluicehq/sluice/policy"
)

// File is what a file says, with defaults in place of what it does not say.
// Load and Parse return only files that are valid.
type File struct {
	// Version is that of the format: 1. Required.
	Version int `yaml:"version"`
	// Store says where state is kept. Default: memory.
	Store Store `yaml:"store"`
	// Listen says where the server listens.
	Listen Listen `yaml:"listen"`
	// Upstream is the service behind the proxy. Without it the server has a built-in
	// echo handler there.
	Upstream Upstream `yaml:"upstream"`
	// TrustedProxies are the addresses whose forwarding headers are believed: single
	// addresses or networks. Default: none, so that the client is the peer.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// TrustMarks believes what the trusted proxies say became of a request there: one with
	// Sluice-Marked, or with a header in which rules of this file mark, counts as marked, and
	// it, and the other headers that rules set on requests, are passed on. From everybody else
	// they are removed. It is for proxies that remove them from what their own clients send, as
	// Sluice does with Sluice-Marked, Sluice-Degraded and the headers of its own rules.
	// Default: false.
	TrustMarks bool `yaml:"trust_marks"`
	// IPv6Prefix is how many bits of an IPv6 client address count. Default: 64.
	IPv6Prefix int `yaml:"ipv6_prefix"`
	// Paths says how paths are cleaned before they are matched.
	Paths Paths `yaml:"paths"`
	// Headers is the profile of headers that tell clients their limits. Default: ietf.
	Headers HeaderProfile `yaml:"headers" oneof:"ietf x-ratelimit x-rate-limit none"`
	// Jitter is the most that is added at random to the times that clients are told, so
	// that they do not all come back at once. Default: 0.
	Jitter time.Duration `yaml:"jitter"`
	// HTTP bounds what one client can make the server hold.
	HTTP HTTP `yaml:"http"`
	// Admin protects the calls that change state.
	Admin Admin `yaml:"admin"`
	// Log is the server's log.
	Log Log `yaml:"log"`
	// ScaleOut tells the platform of the pressure on rules.
	ScaleOut ScaleOut `yaml:"scale_out"`
	// DrainTimeout is how long requests in flight may take to end after SIGTERM.
	// Default: 30s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Default is what becomes of a request that no rule matches. Default: allow.
	Default policy.Action `yaml:"default"`
	// OnStoreError is for the rules that do not say: allow, deny or local. With the
	// memory store, which does not fail, it is of no effect. Default: allow.
	OnStoreError policy.Fallback `yaml:"on_store_error"`
	// Shadow puts all rules in shadow: what they decide is counted and explained, and nothing
	// is enforced. Default: false.
	Shadow bool `yaml:"shadow"`
	// Classes are kinds of traffic, which rules can match and keep shares for.
	Classes []Class `yaml:"classes"`
	// Rules are the policy.
	Rules []Rule `yaml:"rules"`

	source   *source
	included included
}

// unknown has a remedy for what belongs elsewhere.
func (*File) unknown(p pair) string {
	switch p.name {
	case "limit", "limits":
		return "give limits to a rule; the bounds of requests and connections are under http"
	}
	return ""
}

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

// Load reads a file, and the other files that it names, which it looks for from the file's
// folder. If there is something wrong with what they say, the error is an Errors.
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	return parseIn(path, data, filepath.Dir(path))
}

// Parse reads a file's content; name is what errors call it. It reads no other files: to name one
// by a path that is not absolute is a mistake here. If there is something wrong with it, the
// error is an Errors.
func Parse(name string, data []byte) (*File, error) { return parseIn(name, data, "") }

func parseIn(name string, data []byte, folder string) (*File, error) {
	s := newSource(name, data)
	root := s.tree(data)
	if root == nil {
		return nil, s.err()
	}
	f := Default()
	s.decode(root, f)
	f.source, f.included.folder = s, folder
	if !s.full() {
		f.check(s)
		f.compile(s)
	}
	if err := s.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Policy compiles the file's rules. It returns no error for a file that Parse has
// returned and nobody has changed; otherwise the error is an Errors.
func (f *File) Policy() (*policy.Policy, error) {
	s := f.blank()
	p := f.compile(s)
	if err := s.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Validate checks a file that a program has made or changed, as Parse checks one
// that it has read. The error is an Errors.
func (f *File) Validate() error {
	s := f.blank()
	f.check(s)
	f.compile(s)
	return s.err()
}

// blank returns the source with its places and without mistakes.
func (f *File) blank() *source {
	if f.source == nil {
		return newSource("", nil)
	}
	s := *f.source
	s.errs, s.at, s.broken = nil, map[string]bool{}, map[string]bool{}
	return &s
}

// HeaderProfile names the headers that tell clients their limits.
type HeaderProfile string

// The profiles.
const (
	// HeadersIETF are RateLimit and RateLimit-Policy.
	HeadersIETF HeaderProfile = "ietf"
	// HeadersXRateLimit are X-RateLimit-Limit, -Remaining and -Reset.
	HeadersXRateLimit HeaderProfile = "x-ratelimit"
	// HeadersXRateHyphenLimit are X-Rate-Limit-Limit, -Remaining and -Reset.
	HeadersXRateHyphenLimit HeaderProfile = "x-rate-limit"
	// HeadersNone sends none; a denial still says Retry-After.
	HeadersNone HeaderProfile = "none"
)

// Paths says how paths are cleaned; see policy.Paths.
type Paths struct {
	// IgnoreCase is for services that route without regard to case.
	IgnoreCase bool `yaml:"ignore_case"`
	// EncodedSlash is "keep" or "decode": whether %2F is part of its segment or
	// parts two. Default: keep.
	EncodedSlash string `yaml:"encoded_slash" oneof:"keep decode"`
	// StripParams removes what follows a semicolon in a segment.
	StripParams bool `yaml:"strip_params"`
}

// Differences returns the settings in which two files differ, such as "rules" or
// "listen.proxy.address", in the order of the documentation. Lists, and values that only one
// of both has, are compared as a whole.
func Differences(a, b *File) []string {
	return differences("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func differences(path string, a, b reflect.Value) (all []string) {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if a.Kind() != reflect.Struct || readers[a.Type()] != nil {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			all = append(all, path)
		}
		return all
	}
	for i, name := range names(a.Type()) {
		switch {
		case name != "":
			all = append(all, differences(child(path, name), a.Field(i), b.Field(i))...)
		case a.Type().Field(i).IsExported() && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			all = append(all, path) // said by the form of its value, as tls: true
		}
	}
	return all
}

//go:generate go test -run TestSchemaIsThatOfTheTypes -update .

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of files, for editors: what the types say, with their
// documentation. What is right by it can still be wrong: Parse knows more.
func Schema() []byte { return slices.Clone(schema) }
