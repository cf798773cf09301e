package policyfile

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Rule is one rule of the policy; see policy.Rule.
type Rule struct {
	// Name is unique in the file. Required.
	Name string `yaml:"name"`
	// Match says which requests meet the rule. Default: all.
	Match Match `yaml:"match"`
	// Key are the parts of the key, each a text such as client_ip or "header:X-User",
	// or a mapping. Required, unless Always is set.
	Key []KeyPart `yaml:"key"`
	// Limit is the only limit, or Limits are several. One of both is required, unless there
	// is a Bandwidth or Always is set.
	Limit  *Limit  `yaml:"limit"`
	Limits []Limit `yaml:"limits"`
	// Always limits each request that the rule meets, without limits. Default: false.
	Always bool `yaml:"always"`
	// Candidate are limits that are tried out beside the others, in shadow.
	Candidate Candidates `yaml:"candidate"`
	// Overrides are other numbers for some keys.
	Overrides Overrides `yaml:"overrides"`
	// Allow are keys and clients that pass without asking the limits.
	Allow *List `yaml:"allow"`
	// Deny are keys and clients that are refused. It wins over Allow.
	Deny *List `yaml:"deny"`
	// Cost is how many units a request takes: a number, or a mapping. Default: 1.
	Cost Cost `yaml:"cost"`
	// CountStatus counts only requests whose response has one of these statuses: 401, 4xx, 500-503.
	// Default: any response counts. Denied requests are counted by limits with count_denied.
	CountStatus []policy.StatusRange `yaml:"count_status"`
	// Floor is how many units must remain after the take. Default: 0.
	Floor int64 `yaml:"floor"`
	// Reserved keeps the last units of each limit for classes of traffic.
	Reserved []Reserve `yaml:"reserved"`
	// MaxWait is the longest delay that is acceptable; "0s" refuses any. Default:
	// what each limit offers by itself.
	MaxWait *time.Duration `yaml:"max_wait"`
	// MaxWaiting is how many requests may wait at once for this rule in one process. Default: 1024.
	MaxWaiting int `yaml:"max_waiting"`
	// MaxWaitingPerKey is how many of them may have the same key. Default: a quarter of max_waiting.
	MaxWaitingPerKey int `yaml:"max_waiting_per_key"`
	// Bandwidth paces the bytes of each key's requests.
	Bandwidth *Bandwidth `yaml:"bandwidth"`
	// Ban refuses a key outright for a time after too many denials.
	Ban *Ban `yaml:"ban"`
	// Shadow decides, counts and explains, and enforces nothing.
	Shadow bool `yaml:"shadow"`
	// WhenLimited is what happens to a request that the limits do not let pass.
	WhenLimited WhenLimited `yaml:"when_limited"`
	// OnStoreError is allow, deny or local: what becomes of a request while the store
	// does not answer. Default: that of the file.
	OnStoreError policy.Fallback `yaml:"on_store_error"`
}

// unknown has a remedy for what is called otherwise, or belongs elsewhere.
func (*Rule) unknown(p pair) string {
	switch p.name {
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

// WhenLimited is what happens to a request that a rule does not let pass as it is.
type WhenLimited struct {
	// Action is reject, degrade or mark. Default: reject.
	Action string `yaml:"action" oneof:"reject degrade mark"`
	// Status is that of the answer: 400 to 599 to reject, default 429; 200 to 599 to degrade, default 200.
	Status int `yaml:"status"`
	// Header are headers of the answer.
	Header map[string]string `yaml:"header"`
	// ContentType is that of the body. Default: text/plain; charset=utf-8.
	ContentType string `yaml:"content_type"`
	// Body is that of the answer. In it, and in headers, {wait} stands for the seconds after which to
	// come back, and {rule} for the rule's name. Default: a problem document.
	Body string `yaml:"body"`
	// File is a file that is the answer's body instead, seen from this one.
	File string `yaml:"file"`
	// Upstream is where a degraded request goes instead: a URL.
	Upstream string `yaml:"upstream"`
	// RequestHeader are headers of a degraded or marked request that is passed on. Clients cannot
	// send them. Default: Sluice-Degraded or Sluice-Marked, with the rule's name.
	RequestHeader map[string]string `yaml:"request_header"`
}

// Candidates are limits that are tried out.
type Candidates []Limit

// terms returns the terms of a ban as the policy has them.
func (b *Ban) terms(s *source, path string, where *places) *sluice.Ban {
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
		// To the policy these terms would be a ban by hand.
		s.follow(path+".after", "is 0", "give 1 or more denials")
	case !given && !b.ByHand:
		s.follow(path, "says nothing", "write {after: 10, within: 1m, for: 1h}, or {by_hand: true} for bans by hand alone")
	default:
		return t
	}
	return &sluice.Ban{}
}

// Bandwidth paces the bytes of requests, of all requests of one key together.
type Bandwidth struct {
	// Down is the rate of what clients receive: 1MB/s. Default: no pacing.
	Down ByteRate `yaml:"down"`
	// Up is the rate of what clients send. Default: no pacing.
	Up ByteRate `yaml:"up"`
}

func (b *Bandwidth) build(s *source, path string) *policy.Bandwidth {
	if b == nil {
		return nil
	}
	if *b == (Bandwidth{}) {
		s.follow(path, "has no rate", "give down or up, such as 1MB/s")
	}
	return &policy.Bandwidth{Down: sluice.Rate(b.Down), Up: sluice.Rate(b.Up)}
}

// actions are the actions of rules.
var actions = map[string]policy.Action{"": policy.Deny, "reject": policy.Deny, "degrade": policy.Degrade, "mark": policy.Mark}

// build makes what happens to a request.
func (w *WhenLimited) build(f *File, s *source, path string, where *places) policy.LimitedAction {
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
		s.follow(path+".action", quote(w.Action)+" is unknown", didYouMean(w.Action, []string{"reject", "degrade", "mark"}))
		p.Action = policy.Deny
	}
	if w.File != "" || s.has(path+".file") {
		if file, ok := f.file(s, path+".file", w.File); ok {
			p.File = file.path
		}
	}
	if problem, suggestion := checkURL(w.Upstream); problem != "" && w.Upstream != "" {
		s.follow(path+".upstream", problem, suggestion)
		p.Upstream = ""
	}
	return p
}
