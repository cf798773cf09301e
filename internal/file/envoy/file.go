package envoy

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
)

// file is a configuration file of github.com/envoyproxy/ratelimit: the tree of one domain. Settings that its
// own server does not have are named in the comments as ours. See docs/adr/0040.
type file struct {
	Domain      string       `yaml:"domain"`
	Descriptors []descriptor `yaml:"descriptors"`
}

// Unknown has a remedy for a file of Sluice that is among the files of the other server.
func (*file) Unknown(name, text string) string {
	if name == "version" || name == "rules" {
		return "this is a file of Sluice; move it out of the folder"
	}
	return ""
}

// Ignored implements [reader.Ignorer].
func (*file) Ignored(name string) (problem, suggestion string) { return misplaced(name) }

// Ignored implements [reader.Ignorer].
func (*descriptor) Ignored(name string) (problem, suggestion string) { return misplaced(name) }

// Ignored implements [reader.Ignorer].
func (*rateLimit) Ignored(name string) (problem, suggestion string) { return misplaced(name) }

// Ignored implements [reader.Ignorer].
func (*replaces) Ignored(name string) (problem, suggestion string) { return misplaced(name) }

// descriptor is one level of the tree.
type descriptor struct {
	Key            string          `yaml:"key"`
	Value          string          `yaml:"value"`
	RateLimit      *rateLimit      `yaml:"rate_limit"`
	Descriptors    []descriptor    `yaml:"descriptors"`
	ShadowMode     bool            `yaml:"shadow_mode"`
	QuotaMode      bool            `yaml:"quota_mode"`
	DetailedMetric bool            `yaml:"detailed_metric"`
	ValueToMetric  bool            `yaml:"value_to_metric"`
	ShareThreshold bool            `yaml:"share_threshold"`
	Metadata       reader.Anything `yaml:"metadata"`

	// Ours: settings of a Rule that apply to the rate_limit beside them.
	Limits       []rules.Limit     `yaml:"limits" form:"list"`
	Debit        *bool             `yaml:"debit"`
	Candidate    []rules.Limit     `yaml:"candidate"`
	Overrides    rules.Overrides   `yaml:"overrides"`
	Allow        *rules.List       `yaml:"allow" sequence:"name what is listed, as in allow: {client_ip: [192.0.2.0/24]}"`
	Deny         *rules.List       `yaml:"deny" sequence:"name what is listed, as in deny: {client_ip: [192.0.2.0/24]}"`
	Cost         rules.Cost        `yaml:"cost"`
	Floor        int64             `yaml:"floor"`
	Hybrid       rules.Hybrid      `yaml:"hybrid"`
	Ban          *rules.Ban        `yaml:"ban"`
	WhenLimited  rules.WhenLimited `yaml:"when_limited"`
	OnStoreError sluice.Fallback   `yaml:"on_store_error" oneof:"- allow deny local"`
}

// rateLimit is a limit.
type rateLimit struct {
	RequestsPerUnit int64      `yaml:"requests_per_unit"`
	Unit            string     `yaml:"unit"`
	Unlimited       bool       `yaml:"unlimited"`
	Name            string     `yaml:"name"`
	Replaces        []replaces `yaml:"replaces"`

	// Ours: the numbers of a Limit. Without an algorithm, the limit is a fixed_window.
	UnitMultiplier int64         `yaml:"unit_multiplier"`
	Algorithm      string        `yaml:"algorithm"`
	Burst          int64         `yaml:"burst"`
	Debt           int64         `yaml:"debt"`
	WarmUp         time.Duration `yaml:"warm_up"`
	ColdFactor     int64         `yaml:"cold_factor"`
	Queue          int64         `yaml:"queue"`
	Undelayed      int64         `yaml:"undelayed"`
	Starts         string        `yaml:"starts"`
	Calendar       string        `yaml:"calendar"`
	Zone           string        `yaml:"zone"`
	Cells          int           `yaml:"cells"`
	MinInterval    time.Duration `yaml:"min_interval"`
	CountDenied    bool          `yaml:"count_denied"`
}

// replaces names a limit that another one replaces.
type replaces struct {
	Name string `yaml:"name"`
}

// known are the settings that the other server accepts at any level, and ignores where they do not belong.
var known = map[string]bool{
	"domain": true, "key": true, "value": true, "descriptors": true, "rate_limit": true, "unit": true, "requests_per_unit": true,
	"unlimited": true, "shadow_mode": true, "quota_mode": true, "name": true, "replaces": true, "detailed_metric": true,
	"value_to_metric": true, "share_threshold": true, "metadata": true,
}

// units are the periods of units, by their names in lower case.
var units = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour,
	"month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// misplaced returns where a setting belongs that the other server ignores here.
func misplaced(name string) (problem, suggestion string) {
	if !known[name] {
		return "", ""
	}
	problem = "has no effect here"
	switch name {
	case "unit", "requests_per_unit", "unlimited", "name", "replaces":
		return problem, "put it under rate_limit, or remove it"
	case "domain":
		return problem, "remove it: the domain is the first setting of the file"
	case "descriptors", "key", "value", "rate_limit":
		return problem, "put it into a list of descriptors, or remove it"
	default:
		return problem, "put it beside rate_limit, or remove it"
	}
}

// limit returns the limit of a descriptor.
func (l *rateLimit) limit(period time.Duration) *rules.Limit {
	n := &rules.Limit{
		Algorithm: l.Algorithm, Rate: sluice.Per(l.RequestsPerUnit, period),
		Burst: l.Burst, Debt: l.Debt, WarmUp: l.WarmUp, ColdFactor: l.ColdFactor, Queue: l.Queue, Undelayed: l.Undelayed,
		Starts: l.Starts, Calendar: l.Calendar, Zone: l.Zone, Cells: l.Cells, MinInterval: l.MinInterval, CountDenied: l.CountDenied,
	}
	if n.Algorithm == "" {
		n.Algorithm = "fixed_window"
	}
	return n
}

// given reports whether a limit has numbers of ours.
func (l *rateLimit) given() bool {
	rest := *l
	rest.RequestsPerUnit, rest.Unit, rest.Unlimited, rest.Name, rest.Replaces, rest.UnitMultiplier = 0, "", false, "", nil, 0
	return fmt.Sprintf("%+v", rest) != fmt.Sprintf("%+v", rateLimit{})
}
