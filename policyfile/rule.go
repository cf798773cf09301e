package policyfile

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluicehq/sluice/policy"
)

// Rule is one rule of the policy; see policy.Rule.
type Rule struct {
	// Name is unique in the file. Required.
	Name string `yaml:"name"`
	// Match says which requests meet the rule. Default: all.
	Match Match `yaml:"match"`
	// Key are the parts of the key, each a text such as client_ip or "header:X-User",
	// or a mapping. Required.
	Key []KeyPart `yaml:"key"`
	// Limit is the only limit, or Limits are several. One of both is required.
	Limit  *Limit  `yaml:"limit"`
	Limits []Limit `yaml:"limits"`
	// Cost is how many units a request takes: a number, or a mapping. Default: 1.
	Cost Cost `yaml:"cost"`
	// Floor is how many units must remain after the take. Default: 0.
	Floor int64 `yaml:"floor"`
	// MaxWait is the longest delay that is acceptable; "0s" refuses any. Default:
	// what each limit offers by itself.
	MaxWait *time.Duration `yaml:"max_wait"`
	// Ban refuses a key outright for a time after too many denials.
	Ban *Ban `yaml:"ban"`
	// Shadow decides, counts and explains, and enforces nothing.
	Shadow bool `yaml:"shadow"`
	// WhenLimited is what happens to a request that is refused.
	WhenLimited WhenLimited `yaml:"when_limited"`
	// OnStoreError is allow, deny or local: what becomes of a request while the store
	// does not answer. Default: that of the file.
	OnStoreError policy.Fallback `yaml:"on_store_error"`
}

// Match says which requests meet a rule. What is given must all match; of a
// list, one entry.
type Match struct {
	// Path are patterns such as /login, /users/* and /api/**; see policy.Match.
	Path []string `yaml:"path"`
	// Method are methods.
	Method []string `yaml:"method"`
	// Host are names, or *.example.com for all below one.
	Host []string `yaml:"host"`
	// Header are conditions on headers, by name.
	Header map[string]HeaderMatch `yaml:"header"`
}

// HeaderMatch is a condition on a header: a value, a list of values, "*" for any
// value, or a mapping.
type HeaderMatch struct {
	// Is are values, one of which it must have.
	Is []string `yaml:"is"`
	// Prefix are beginnings, one of which it must have.
	Prefix []string `yaml:"prefix"`
	// Present says whether it must be there, or must not.
	Present *bool `yaml:"present"`
}

func (*HeaderMatch) short(bool) string { return "is" }

// KeyPart is one part of a key: a text such as client_ip, or a mapping.
type KeyPart struct {
	// Part is client_ip, path, route, method, host, global, "header:NAME", "cookie:NAME",
	// "query:NAME", "param:NAME" or "constant:TEXT".
	Part string `yaml:"part"`
	// OnMissing is share, skip or deny. Default: share.
	OnMissing policy.Missing `yaml:"on_missing"`
	// IPv6Prefix is for client_ip. Default: that of the file.
	IPv6Prefix int `yaml:"ipv6_prefix"`
}

func (*KeyPart) short(list bool) string { return single("part", list) }

// unknown suggests "header:X-User" for {header: X-User}, which a space makes of it.
func (*KeyPart) unknown(p pair) string {
	text, ok := p.value.(*ast.StringNode)
	if !ok {
		return ""
	}
	part := p.name + ":" + text.Value
	if _, err := policy.ParsePart(part); err != nil {
		return ""
	}
	return fmt.Sprintf("write the part as one text, in quotes: %q", part)
}

// Cost is how many units a request takes: a number, or a mapping.
type Cost struct {
	// Units is a constant; with Header, the cost of a request without it.
	Units int64 `yaml:"units"`
	// Header is a header that holds the cost. Clients must not be able to set it.
	Header string `yaml:"header"`
	// Max caps what the header says.
	Max int64 `yaml:"max"`
}

func (*Cost) short(list bool) string { return single("units", list) }

// Ban refuses a key outright for a time, after too many denials or if it was banned by hand.
type Ban struct {
	// After is how many denials. Required, unless ByHand is set.
	After int64 `yaml:"after"`
	// Within is the time in which they add up. Default: the first time of For.
	Within time.Duration `yaml:"within"`
	// For is how long the ban lasts: one time, or a list for bans in a row, of which the last
	// stands for all further ones. Required, unless ByHand is set.
	For []time.Duration `yaml:"for"`
	// Forget is how long a key must be quiet for its next ban to be a first one again.
	// Default: the longest time of For. Only with several.
	Forget time.Duration `yaml:"forget"`
	// Prolong lets each attempt of a banned key begin its ban anew. Default: false.
	Prolong bool `yaml:"prolong"`
	// ByHand lets keys be banned by hand, as sluice ban does. With terms for denials they can
	// be so anyway; without, bans are by hand alone.
	ByHand bool `yaml:"by_hand"`
}

// WhenLimited is what happens to a request that a rule refuses.
type WhenLimited struct {
	// Action is reject. Default: reject.
	Action string `yaml:"action" oneof:"reject"`
	// Status is that of the response, 400 to 599. Default: 429.
	Status int `yaml:"status"`
	// Header are headers of the response.
	Header map[string]string `yaml:"header"`
	// ContentType is that of the body. Default: text/plain; charset=utf-8.
	ContentType string `yaml:"content_type"`
	// Body is that of the response. Default: a problem document.
	Body string `yaml:"body"`
}
