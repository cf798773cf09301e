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
