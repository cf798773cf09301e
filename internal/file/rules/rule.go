package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// Rule is one rule of the policy: which requests it matches, what it counts them by, and the limits.
type Rule struct {
	// Name is unique in the file: letters, digits, dots, dashes and underscores. What keys
	// have used is kept under the name. Required.
	Name string `yaml:"name"`
	// Match selects the requests of the rule. Default: all requests.
	Match Match `yaml:"match"`
	// Descriptor selects descriptors of gateways such as Envoy, instead of requests. The rule has no match then.
	// Default: none.
	Descriptor *Descriptor `yaml:"descriptor"`
	// Key is what the limits count by: one part or more, each a text such as client_ip or header:X-User, or a
	// mapping. The part global makes one budget for all requests. Required, unless always is set or the rule matches
	// descriptors.
	Key []KeyPart `yaml:"key"`
	// Limit is the only limit of the rule. A rule has limit or limits, unless it has a bandwidth, or
	// always, unlimited or exempt is set.
	Limit *Limit `yaml:"limit"`
	// Limits are several limits. A request passes only if all of them let it pass.
	Limits []Limit `yaml:"limits" form:"list"`
	// Always limits each request that the rule matches, without a limit. Default: false.
	Always bool `yaml:"always"`
	// Unlimited lets each descriptor pass that the rule matches, without a limit, so that no other rule of the domain
	// applies to it. Default: false.
	Unlimited bool `yaml:"unlimited"`
	// Exempt is like unlimited, except that answers name no limit, as if no rule matched. Default: false.
	Exempt bool `yaml:"exempt"`
	// Candidate holds limits to try out beside the others. They are decided, counted and explained,
	// not enforced. Default: none.
	Candidate []Limit `yaml:"candidate"`
	// Overrides are other numbers for some keys: a list, the name of a CSV file, or both. Default: none.
	Overrides Overrides `yaml:"overrides"`
	// Allow lists keys and clients that pass without the limits. Default: none.
	Allow *List `yaml:"allow" sequence:"name what is listed, as in allow: {client_ip: [192.0.2.0/24]}"`
	// Deny lists keys and clients that are refused. Deny wins over allow. Default: none.
	Deny *List `yaml:"deny" sequence:"name what is listed, as in deny: {client_ip: [192.0.2.0/24]}"`
	// Cost is how many units a request takes: a number, or a mapping. Default: 1.
	Cost Cost `yaml:"cost"`
	// Overdraw lets a request pass while a unit is left, and takes its whole cost: what is missing becomes debt, which
	// refuses later requests until the rate, or the next window, has paid it. Leaky buckets and concurrency limits
	// cannot owe units. Default: false.
	Overdraw bool `yaml:"overdraw"`
	// CountStatus counts only requests whose response has one of these statuses. The units are taken
	// before the request is passed on, and given back if its status is another. Default: any response counts.
	CountStatus []Status `yaml:"count_status"`
	// Floor is how many units must remain for others after a request took its cost. Default: 0.
	Floor int64 `yaml:"floor" unit:"units"`
	// Reserved keeps the last units of each limit for classes of traffic. Default: none.
	Reserved []Reserve `yaml:"reserved"`
	// MaxWait is the longest time that a request may wait for its turn. 0s lets none
	// wait. Default: what each limit offers.
	MaxWait *time.Duration `yaml:"max_wait"`
	// MaxWaiting is how many requests of the rule may wait at once in one process. Default: 1024.
	MaxWaiting int `yaml:"max_waiting" unit:"requests"`
	// MaxWaitingPerKey is how many of them may have the same key. Default: a quarter of max_waiting.
	MaxWaitingPerKey int `yaml:"max_waiting_per_key" unit:"requests"`
	// Hybrid is true, or a mapping, for limits that each server decides in its own process, on units that
	// the store in Redis granted to it. Default: false.
	Hybrid Hybrid `yaml:"hybrid"`
	// Bandwidth paces the bytes of each key's requests. Default: none.
	Bandwidth *Bandwidth `yaml:"bandwidth"`
	// Ahead lets operators give keys units ahead, which count when the limits deny: sluice grant --ahead. Default: none.
	Ahead *Ahead `yaml:"ahead"`
	// Ban refuses a key for a time after too many denials. Default: none.
	Ban *Ban `yaml:"ban"`
	// Shadow counts and explains what the rule decides, and does not enforce it. Default: false.
	Shadow bool `yaml:"shadow"`
	// WhenLimited is what happens to a request that the limits do not let pass.
	WhenLimited WhenLimited `yaml:"when_limited"`
	// OnStoreError is what happens to a request while the store does not answer. With local, each
	// server limits by itself; see store.redis.local. Default: the file's on_store_error.
	OnStoreError sluice.Fallback `yaml:"on_store_error" oneof:"- allow deny local"`
}

// Unknown has a remedy for a setting that has another name or belongs elsewhere.
func (*Rule) Unknown(name, text string) string {
	switch name {
	case "queue":
		return "give max_waiting for the waiting queue of the rule; the queue of a limit belongs to the limit"
	case "queue_per_key":
		return "give max_waiting_per_key"
	case "counts":
		return "give count_status: [401, 4xx] to count some statuses only, or count_denied: true to a limit that counts denied requests"
	case "count_denied":
		return "it belongs to the limit that counts denied requests"
	}
	return ""
}

// Ahead bounds the units ahead of a key.
type Ahead struct {
	// Units is the most that a key may have ahead at a time, what it has used of them included. Required.
	Units int64 `yaml:"units" unit:"units"`
	// For is how long units ahead last, and the longest that a call may give them for. Required.
	For time.Duration `yaml:"for"`
}

// Ban refuses a key for a time, after too many denials or when an operator bans it.
type Ban struct {
	// After is how many denials lead to a ban. Requests within the limit do not count. Required, unless by_hand is
	// set.
	After int64 `yaml:"after" unit:"denials"`
	// Within is the time in which denials add up. Default: the first time of for.
	Within time.Duration `yaml:"within"`
	// For is how long a ban lasts: one time, or a list for consecutive bans. The last time of the list
	// applies to all further bans. Required, unless by_hand is set.
	For []time.Duration `yaml:"for"`
	// Forget is how long a key must be quiet until its next ban counts as the first again. It
	// needs several times in for. Default: the longest time of for.
	Forget time.Duration `yaml:"forget"`
	// Prolong restarts a ban with each attempt of the banned key. Default: false.
	Prolong bool `yaml:"prolong"`
	// ByHand lets operators ban keys although the rule has no terms for denials. With such terms they
	// can do so anyway. Default: false.
	ByHand bool `yaml:"by_hand"`
	// Shared lets denials ban a key that all clients share, such as global: any client can ban all
	// others. Denials of requests without a part of the key never lead to a ban. Default: false.
	Shared bool `yaml:"shared"`
}

// WhenLimited is what happens to a request that the limits of a rule do not let pass.
type WhenLimited struct {
	// Action refuses the request, serves it with less, or passes it on with a mark. Default: reject.
	Action string `yaml:"action" oneof:"reject degrade mark"`
	// Status is the status of the answer: 400 to 599 to reject, 200 to 599 to degrade. Default: 429 to reject, 200 to
	// degrade.
	Status int `yaml:"status"`
	// Header holds headers of the answer. Default: none.
	Header map[string]string `yaml:"header"`
	// ContentType is the media type of body or file. Default: "text/plain; charset=utf-8".
	ContentType string `yaml:"content_type"`
	// Body is the body of the answer. In body and header, {wait} is replaced by the seconds to wait, and
	// {rule} by the rule's name. Default: a problem document in JSON.
	Body string `yaml:"body"`
	// File is a file whose content is the body of the answer. Its path is relative to this file. Default: none.
	File string `yaml:"file" path:"included"`
	// Upstream is the URL of the service that gets degraded requests. Default: none.
	Upstream string `yaml:"upstream"`
	// RequestHeader holds headers to set on degraded or marked requests that are passed on. Sluice removes them
	// from what clients send. Default: Sluice-Degraded or Sluice-Marked, with the rule's name.
	RequestHeader map[string]string `yaml:"request_header"`
}

// terms returns the terms of a ban for the policy.
func (b *Ban) terms(s *reader.Source, path string, where *origins) *sluice.Ban {
	where.set("Ban.Escalate", path+".for")
	for i := range b.For[min(1, len(b.For)):] {
		where.set(fmt.Sprintf("Ban.Escalate[%d]", i), fmt.Sprintf("%s.for[%d]", path, i+1))
	}
	t := &sluice.Ban{After: b.After, Within: b.Within, Forget: b.Forget, Prolong: b.Prolong}
	if len(b.For) > 0 {
		t.For, t.Escalate = b.For[0], b.For[1:]
	}
	given := t.After != 0 || t.Within != 0 || len(b.For) > 0 || t.Forget != 0 || t.Prolong
	switch {
	case given && t.After == 0 && t.For == 0 && t.Within == 0 && t.Forget == 0 && !t.Prolong:
		// The policy would read these terms as a ban by hand.
		s.Follow(path+".after", "is 0", "give 1 or more denials")
	case !given && !b.ByHand:
		s.Follow(path, "is empty", "write {after: 10, within: 1m, for: 1h}, or {by_hand: true} for bans by hand only")
	case given && len(b.For) == 0 && !s.Has(path+".for"):
		s.Follow(path+".for", "is missing", "give how long a ban lasts, such as 1h")
	default:
		return t
	}
	return &sluice.Ban{}
}

// Bandwidth paces the bytes of requests. All requests with the same key share it.
type Bandwidth struct {
	// Down is the rate of bytes to clients. Default: no pacing.
	Down reader.ByteRate `yaml:"down"`
	// Up is the rate of bytes from clients. Default: no pacing.
	Up reader.ByteRate `yaml:"up"`
}

func (b *Bandwidth) build(s *reader.Source, path string) *policy.Bandwidth {
	if b == nil {
		return nil
	}
	if *b == (Bandwidth{}) {
		s.Follow(path, "has no rate", "give down or up, such as 1MB/s")
	}
	return &policy.Bandwidth{Down: sluice.Rate(b.Down), Up: sluice.Rate(b.Up)}
}

// actions are the actions of rules.
var actions = map[string]policy.Action{"": policy.Deny, "reject": policy.Deny, "degrade": policy.Degrade, "mark": policy.Mark}

// build makes the action for limited requests.
func (w *WhenLimited) build(f *File, s *reader.Source, path string, where *origins) policy.LimitedAction {
	for name := range w.Header {
		where.set("WhenLimited.Header["+name+"]", path+".header."+name)
	}
	for name := range w.RequestHeader {
		where.set("WhenLimited.RequestHeader["+name+"]", path+".request_header."+name)
	}
	p := policy.LimitedAction{
		Status: w.Status, Header: w.Header, ContentType: w.ContentType, Body: w.Body, Upstream: w.Upstream, RequestHeader: w.RequestHeader,
	}
	var known bool
	if p.Action, known = actions[w.Action]; !known {
		s.Follow(path+".action", reader.Quote(w.Action)+" is unknown", reader.DidYouMean(w.Action, []string{"reject", "degrade", "mark"}))
		p.Action = policy.Deny
	}
	if w.File != "" || s.Has(path+".file") {
		if file, ok := f.file(s, path+".file", w.File); ok {
			p.File = file.Path
		}
	}
	if problem, suggestion := reader.CheckURL(w.Upstream); problem != "" && w.Upstream != "" {
		s.Follow(path+".upstream", problem, suggestion)
		p.Upstream = ""
	}
	return p
}

// ReadsClient reports whether a rule reads the address of the client.
func (r *Rule) ReadsClient() bool {
	lists := func(l *List) bool { return l != nil && (len(l.ClientIP) > 0 || l.ClientIPFile != "") }
	return r.Match.ReadsClient() || lists(r.Allow) || lists(r.Deny) ||
		slices.ContainsFunc(r.Key, func(k KeyPart) bool { return strings.Contains(k.Part, "client_ip") })
}
