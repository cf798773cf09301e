package policyfile

import (
	"net/netip"
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
