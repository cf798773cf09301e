package policyfile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a zone that is valid on one machine is valid on all

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

// takes are the numbers of each algorithm, besides its name.
var takes = map[string][]string{
	"token_bucket":    {"rate", "burst", "debt", "warm_up", "cold_factor"},
	"leaky_bucket":    {"rate", "queue", "undelayed"},
	"fixed_window":    {"rate", "starts", "calendar", "zone", "count_denied"},
	"sliding_window":  {"rate", "cells", "count_denied"},
	"sliding_counter": {"rate", "count_denied"},
	"sliding_log":     {"rate", "min_interval", "count_denied"},
	"concurrency":     {"max", "queue", "ttl", "latency"},
}

// build makes the limit, or reports why there is none.
func (l *Limit) build(s *source, path string) *sluice.Limit {
	known := takes[l.Algorithm]
	if known == nil {
		if l.Algorithm == "" {
			s.follow(path+".algorithm", "is missing", "give token_bucket, unless you know that you want another one")
		} else {
			s.follow(path+".algorithm", quote(l.Algorithm)+" is unknown", didYouMean(l.Algorithm, algorithms()))
		}
		return nil
	}
	fit := l.foreign(s, path, known)
	if slices.Contains(known, "rate") && l.Rate.IsZero() {
		s.follow(path+".rate", "is missing", "give one such as 100/m")
		fit = false
	}
	if l.Algorithm == "concurrency" && l.Max == 0 {
		s.follow(path+".max", "is missing", "give how many may be in flight")
		fit = false
	}
	algorithm, ok := l.algorithm(s, path)
	if !ok || !fit || s.at[path] {
		return nil
	}
	limit, err := sluice.NewLimit(l.Name, algorithm)
	var bad *sluice.LimitError
	if errors.As(err, &bad) {
		s.follow(path+"."+settingOf(bad.Field), bad.Problem, bad.Remedy)
		return nil
	}
	return limit
}

func algorithms() []string {
	f, _ := reflect.TypeFor[Limit]().FieldByName("Algorithm")
	return strings.Fields(f.Tag.Get("oneof"))
}

// foreign reports the numbers that belong to other algorithms.
func (l *Limit) foreign(s *source, path string, known []string) (fit bool) {
	v, fit := reflect.ValueOf(l).Elem(), true
	for i, name := range names(v.Type()) {
		at := path + "." + name
		if name == "name" || name == "algorithm" || slices.Contains(known, name) || v.Field(i).IsZero() && !s.has(at) {
			continue
		}
		var owners []string
		for _, a := range algorithms() {
			if slices.Contains(takes[a], name) {
				owners = append(owners, a)
			}
		}
		pos, ok := s.keys[at]
		if !ok {
			pos = s.find(at)
		}
		s.reportAt(pos, at, fmt.Sprintf("is nothing that %s takes", l.Algorithm),
			fmt.Sprintf("it belongs to %s; %s takes %s", oneOf(owners), l.Algorithm, strings.Join(known, ", ")))
		fit = false
	}
	return fit
}

// calendars are the units, and the periods of rates that go with them.
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
func (l *Limit) algorithm(s *source, path string) (a sluice.Algorithm, ok bool) {
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
			s.follow(path+".calendar", quote(l.Calendar)+" is unknown", didYouMean(l.Calendar, []string{"day", "week", "month"}))
			ok = false
		case !l.Rate.IsZero() && l.Rate.Period() != c.period:
			s.follow(path+".rate", fmt.Sprintf("%v is no count of a calendar %s", l.Rate, l.Calendar), fmt.Sprintf("write %d/%s", l.Rate.Count(), strings.TrimPrefix(c.text, "1")))
			ok = false
		}
		w.Calendar = c.unit
	}
	if l.Zone != "" {
		zone, err := time.LoadLocation(l.Zone)
		switch {
		case l.Calendar == "":
			s.follow(path+".zone", "is given without a calendar, which it is for", "give calendar: day, week or month, or remove the zone")
			ok = false
		case err != nil || l.Zone == "Local":
			s.follow(path+".zone", quote(l.Zone)+" is no time zone", "give a name such as Europe/Berlin or UTC")
			ok = false
		}
		w.Zone = zone
	}
	return w, ok
}

// settingOf returns the setting for the field of a limit.
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
