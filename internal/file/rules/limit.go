package rules

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a zone that is valid on one machine is valid on all

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
)

// Limit is an algorithm and its numbers. Each algorithm takes some of the numbers; the others
// are errors.
type Limit struct {
	// Name distinguishes the limit from others of its rule. Default: its position in the list, from 1.
	Name string `yaml:"name"`
	// Algorithm is how the limit counts. token_bucket is a good choice for most rules. Required.
	Algorithm string `yaml:"algorithm" oneof:"token_bucket leaky_bucket fixed_window sliding_window sliding_counter sliding_log concurrency"`
	// Rate is a count per period. Every algorithm except concurrency needs it.
	Rate sluice.Rate `yaml:"rate"`

	// Burst is the size of a token bucket. Default: the count of the rate.
	Burst int64 `yaml:"burst" unit:"units"`
	// Debt is how many units a token bucket may owe, for reservations and costs known afterwards. Default: the burst.
	Debt int64 `yaml:"debt" unit:"units"`
	// WarmUp is the time in which an idle token bucket reaches its full rate. Default: 0s.
	WarmUp time.Duration `yaml:"warm_up"`
	// ColdFactor is how many times slower an idle token bucket with warm_up starts. Default: 3.
	ColdFactor int64 `yaml:"cold_factor" unit:"times"`

	// Queue is how many units may wait for their turn, in a leaky bucket or a concurrency limit. Default: 0.
	Queue int64 `yaml:"queue" unit:"units"`
	// Undelayed is how many units in the queue of a leaky bucket pass without delay. Default: 0.
	Undelayed int64 `yaml:"undelayed" unit:"units"`

	// Starts is when fixed windows start: aligned to multiples of the period since 1970 in UTC, or with the
	// first_request after the window before. Default: aligned.
	Starts string `yaml:"starts" oneof:"aligned first_request"`
	// Calendar makes fixed windows a day, week or month of a time zone. The period of the rate
	// must be 1d, 1w or 30d then. Default: none.
	Calendar string `yaml:"calendar" oneof:"day week month"`
	// Zone is the time zone of the calendar, such as Europe/Berlin. Default: "UTC".
	Zone string `yaml:"zone"`

	// Cells is the number of parts in which a sliding window moves. More cells follow the rate more closely and take more
	// memory per key. Default: 10.
	Cells int `yaml:"cells" unit:"cells"`

	// MinInterval is the least time between two requests in a sliding log. Default: 0s.
	MinInterval time.Duration `yaml:"min_interval"`
	// CountDenied counts denied attempts too, in a fixed window, sliding window, sliding counter or sliding
	// log. A client that keeps trying then stays limited. Default: false.
	CountDenied bool `yaml:"count_denied"`

	// Max is how many units may be in flight at once. A concurrency limit needs it.
	Max int64 `yaml:"max" unit:"units"`
	// TTL is how long the lease of a request in flight lasts without renewal. Default: 1m.
	TTL time.Duration `yaml:"ttl"`
	// Latency is how long requests in flight are estimated to last before the limit has measured them.
	// Default: 100ms with a queue.
	Latency time.Duration `yaml:"latency"`
}

// Unknown has a remedy for a setting with another name.
func (*Limit) Unknown(name, text string) string {
	if name == "opened" {
		return "give starts: first_request"
	}
	return ""
}

// takes are the settings of each algorithm, besides name and algorithm.
var takes = map[string][]string{
	"token_bucket":    {"rate", "burst", "debt", "warm_up", "cold_factor"},
	"leaky_bucket":    {"rate", "queue", "undelayed"},
	"fixed_window":    {"rate", "starts", "calendar", "zone", "count_denied"},
	"sliding_window":  {"rate", "cells", "count_denied"},
	"sliding_counter": {"rate", "count_denied"},
	"sliding_log":     {"rate", "min_interval", "count_denied"},
	"concurrency":     {"max", "queue", "ttl", "latency"},
}

// build makes the limit, or reports why it cannot.
func (l *Limit) build(s *reader.Source, path string) *sluice.Limit {
	known := takes[l.Algorithm]
	if known == nil {
		if l.Algorithm == "" {
			s.Follow(path+".algorithm", "is missing", "give token_bucket, which fits most rules")
		} else {
			remedy := reader.DidYouMean(l.Algorithm, algorithms())
			if strings.EqualFold(l.Algorithm, "gcra") {
				remedy = "write token_bucket, which decides in the same way"
			}
			s.Follow(path+".algorithm", reader.Quote(l.Algorithm)+" is unknown", remedy)
		}
		return nil
	}
	fit := l.foreign(s, path, known)
	if slices.Contains(known, "rate") && l.Rate.IsZero() {
		s.Follow(path+".rate", "is missing", "give one such as 100/m")
		fit = false
	}
	if l.Algorithm == "concurrency" && l.Max == 0 {
		s.Follow(path+".max", "is missing", "give how many may be in flight")
		fit = false
	}
	algorithm, ok := l.algorithm(s, path)
	if !ok || !fit || s.Failed(path) {
		return nil
	}
	limit, err := sluice.NewLimit(l.Name, algorithm)
	var bad *sluice.LimitError
	if errors.As(err, &bad) {
		s.Follow(path+"."+settingOf(bad.Field), bad.Problem, bad.Remedy)
		return nil
	}
	return limit
}

func algorithms() []string {
	f, _ := reflect.TypeFor[Limit]().FieldByName("Algorithm")
	return strings.Fields(f.Tag.Get("oneof"))
}

// foreign reports numbers that only other algorithms take.
func (l *Limit) foreign(s *reader.Source, path string, known []string) (fit bool) {
	v, fit := reflect.ValueOf(l).Elem(), true
	for i, name := range reader.Accepted(v.Type()) {
		at := path + "." + name
		if name == "name" || name == "algorithm" || slices.Contains(known, name) || v.Field(i).IsZero() && !s.Has(at) {
			continue
		}
		var owners []string
		for _, a := range algorithms() {
			if slices.Contains(takes[a], name) {
				owners = append(owners, a)
			}
		}
		s.ReportKey(at, fmt.Sprintf("does not apply to %s", l.Algorithm),
			fmt.Sprintf("it belongs to %s; %s takes %s", reader.OneOf(owners), l.Algorithm, strings.Join(known, ", ")))
		fit = false
	}
	return fit
}

// calendars are the calendar units and the periods that their rates must have.
var calendars = map[string]struct {
	unit   sluice.CalendarUnit
	period time.Duration
	text   string
}{
	"day":   {sluice.CalendarDay, 24 * time.Hour, "1d"},
	"week":  {sluice.CalendarWeek, 7 * 24 * time.Hour, "1w"},
	"month": {sluice.CalendarMonth, 30 * 24 * time.Hour, "30d"},
}

// algorithm returns the algorithm with its numbers.
func (l *Limit) algorithm(s *reader.Source, path string) (a sluice.Algorithm, ok bool) {
	switch l.Algorithm {
	case "token_bucket":
		return sluice.TokenBucket{Rate: l.Rate, Burst: l.Burst, Debt: l.Debt, WarmUp: l.WarmUp, ColdFactor: l.ColdFactor}, true
	case "leaky_bucket":
		return sluice.LeakyBucket{Rate: l.Rate, Queue: l.Queue, Undelayed: l.Undelayed}, true
	case "sliding_window":
		return sluice.SlidingWindow{Rate: l.Rate, Cells: l.Cells, CountDenied: l.CountDenied}, true
	case "sliding_counter":
		return sluice.SlidingCounter{Rate: l.Rate, CountDenied: l.CountDenied}, true
	case "sliding_log":
		return sluice.SlidingLog{Rate: l.Rate, MinInterval: l.MinInterval, CountDenied: l.CountDenied}, true
	case "concurrency":
		return sluice.Concurrency{Max: l.Max, Queue: l.Queue, TTL: l.TTL, Latency: l.Latency}, true
	}
	w := sluice.FixedWindow{Rate: l.Rate, Opened: l.Starts == "first_request", CountDenied: l.CountDenied}
	ok = true
	if l.Calendar != "" {
		c, known := calendars[l.Calendar]
		switch {
		case !known:
			s.Follow(path+".calendar", reader.Quote(l.Calendar)+" is unknown", reader.DidYouMean(l.Calendar, []string{"day", "week", "month"}))
			ok = false
		case !l.Rate.IsZero() && l.Rate.Period() != c.period:
			s.Follow(path+".rate", fmt.Sprintf("%v is not a count per calendar %s", l.Rate, l.Calendar), fmt.Sprintf("write %d/%s", l.Rate.Count(), strings.TrimPrefix(c.text, "1")))
			ok = false
		}
		w.Calendar = c.unit
	}
	if l.Zone != "" {
		zone, err := time.LoadLocation(l.Zone)
		switch {
		case l.Calendar == "":
			s.Follow(path+".zone", "is given without a calendar", "give calendar: day, week or month, or remove the zone")
			ok = false
		case err != nil || l.Zone == "Local":
			s.Follow(path+".zone", reader.Quote(l.Zone)+" is not a time zone", "give a name such as Europe/Berlin or UTC")
			ok = false
		}
		w.Zone = zone
	}
	return w, ok
}

// settingOf returns the setting of an algorithm's field.
func settingOf(field string) string {
	if field == "Opened" {
		return "starts"
	}
	t := reflect.TypeFor[Limit]()
	if f, ok := t.FieldByName(field); ok {
		return f.Tag.Get("yaml")
	}
	return strings.ToLower(field)
}
