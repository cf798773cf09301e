package policyfile

import (
	"time"

	"github.com/sluicehq/sluice"
)

// Limit is an algorithm and its numbers. Which numbers an algorithm takes is in
// its type's documentation in package sluice; others are errors.
type Limit struct {
	// Name tells the limit from others of its rule. Default: its number.
	Name string `yaml:"name"`
	// Algorithm is token_bucket, leaky_bucket, fixed_window, sliding_window,
	// sliding_counter, sliding_log or concurrency. Required.
	Algorithm string `yaml:"algorithm" oneof:"token_bucket leaky_bucket fixed_window sliding_window sliding_counter sliding_log concurrency"`
	// Rate is a count per period: 100/m, 5/s, 10/30s. Required, except for concurrency.
	Rate sluice.Rate `yaml:"rate"`

	// Burst is the size of a token bucket. Default: the rate's count.
	Burst int64 `yaml:"burst"`
	// Debt is how much a token bucket may owe. Default: Burst.
	Debt int64 `yaml:"debt"`
	// WarmUp is the time in which an idle token bucket comes up to its rate.
	WarmUp time.Duration `yaml:"warm_up"`
	// ColdFactor is how many times slower it starts. Default: 3.
	ColdFactor int64 `yaml:"cold_factor"`

	// Queue is how many may wait, of a leaky bucket or a concurrency limit.
	Queue int64 `yaml:"queue"`
	// Undelayed is how many of a leaky bucket's queue pass at once.
	Undelayed int64 `yaml:"undelayed"`

	// Starts says when fixed windows start: aligned, at multiples of the period since 1970 in UTC, or
	// first_request, with the first request after the window before. Default: aligned.
	Starts string `yaml:"starts" oneof:"aligned first_request"`
	// Calendar makes fixed windows a day, week or month of a time zone. The rate's
	// period must be 1d, 1w or 30d then.
	Calendar string `yaml:"calendar" oneof:"day week month"`
	// Zone is the calendar's time zone, such as Europe/Berlin. Default: UTC.
	Zone string `yaml:"zone"`

	// Cells is in how many parts a sliding window moves. Default: 10.
	Cells int `yaml:"cells"`

	// MinInterval is the least time between two requests of a sliding log.
	MinInterval time.Duration `yaml:"min_interval"`
	// CountDenied makes a fixed or sliding window, a sliding counter or a sliding log
	// count denied attempts too.
	CountDenied bool `yaml:"count_denied"`

	// Max is how many may be in flight. Required for concurrency.
	Max int64 `yaml:"max"`
	// TTL is how long a lease of a concurrency limit lasts. Default: 1m.
	TTL time.Duration `yaml:"ttl"`
	// Latency is how long a request in flight is taken to last at first.
	Latency time.Duration `yaml:"latency"`
}

// unknown has a remedy for what is called otherwise.
func (*Limit) unknown(p pair) string {
	if p.name == "opened" {
		return "give starts: first_request"
	}
	return ""
}
