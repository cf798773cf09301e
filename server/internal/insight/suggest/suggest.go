package suggest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/sluicehq/sluice/server/internal/insight/page"
	"github.com/sluicehq/sluice/server/internal/insight/replay"
)

// Options configure a suggestion.
type Options struct {
	replay.Options               // the log, and the policy whose rules get suggestions
	Per            time.Duration // the period of the rates
	Share          float64       // of the keys that the limit never denies, below 1
	Headroom       float64       // by which more than that is allowed, 1 or more
	Named          bool          // the policy is of a file, and its limits are shown too
}

// fitted is the part of the log that limits are fitted to. They are measured on the rest.
const fitted = 0.7

// Check returns an error for options that are out of their ranges.
func (o *Options) Check() error {
	switch {
	case o.Per < time.Millisecond || o.Per > 366*24*time.Hour:
		return fmt.Errorf("the period of rates is %v; give 1ms to a year, such as 1m", o.Per)
	case !(o.Share > 0 && o.Share < 1):
		return fmt.Errorf("the share of clients is %v; give more than 0 and less than 100%%, such as 99%%", o.Share)
	case !(o.Headroom >= 1 && o.Headroom <= 1000):
		return fmt.Errorf("the headroom is %v; give 1 to 1000, such as 1.5", o.Headroom)
	}
	return nil
}

// fit is the state of a rule.
type fit struct {
	curve    *curve
	windows  windows
	requests int64
	most     int64 // the largest cost
}

// Run reads the log three times: for its times, to fit limits to its first part, and to measure them on the rest.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.Names = func(client string) string { return client } // none is shown
	if i := slices.Index(o.Logs.Files, "-"); i >= 0 {
		name, err := kept(o.Logs.Stdin)
		if err != nil {
			return nil, fmt.Errorf("the standard input is read several times, and cannot be kept in a file: %w", err)
		}
		defer os.Remove(name)
		o.Logs.Files, o.Logs.Stdin = slices.Clone(o.Logs.Files), nil
		o.Logs.Files[i] = name
	}
	first, last, requests := int64(math.MaxInt64), int64(math.MinInt64), int64(0)
	scope, err := replay.Wishes(ctx, o.Options, func(w replay.Wish) {
		first, last = min(first, w.At), max(last, w.At)
		requests++
	})
	if err != nil {
		return nil, err
	}
	rep := &Report{Version: 1, Per: describe.Duration(o.Per), Share: o.Share, Headroom: o.Headroom, Unevaluated: append([]replay.Unevaluated{}, scope.Unevaluated...), Lines: scope.Stats.Lines, Bad: scope.Stats.Bad}
	if requests == 0 {
		return nil, nothing(scope)
	}
	split := splitOf(first, last)
	rep.From, rep.Split, rep.To = timeOf(first), timeOf(split), timeOf(last)
	fits := make([]*fit, len(scope.Rules))
	for i := range fits {
		period := o.Per.Microseconds()
		fits[i] = &fit{curve: newCurve(grid, period), windows: windows{period: period}}
	}
	done := false
	_, err = replay.Wishes(ctx, o.Options, func(w replay.Wish) {
		if !done && w.At >= split {
			done = true
			rep.fit(&o, scope, fits)
		}
		f := fits[w.Rule]
		key := f.curve.key(replay.HashOf(w.Key))
		f.curve.add(key, w.At, w.Cost)
		if !done {
			f.windows.add(key, w.At, w.Cost)
		}
		f.requests++
		f.most = max(f.most, w.Cost)
	})
	if err != nil {
		return nil, err
	}
	if !done {
		rep.fit(&o, scope, fits)
	}
	if err := rep.measure(ctx, &o, fits); err != nil {
		return nil, err
	}
	return rep, nil
}

// nothing returns the error for a log without a request of a rule.
func nothing(scope *replay.Scope) error {
	if len(scope.Unevaluated) > 0 {
		u := scope.Unevaluated[0]
		return fmt.Errorf("no request of the log is of a rule that can be evaluated: %s needs %s: %s", u.Name, u.Lacks, u.Remedy)
	}
	s := &scope.Stats
	return fmt.Errorf("no request of the log is of a rule: of %d lines, %d are not of the format, and %d are outside of --since and --until", s.Lines, s.Bad, s.Skipped)
}

// kept copies a log into a temporary file, and returns its name.
func kept(log io.Reader) (name string, err error) {
	file, err := os.CreateTemp("", "sluice-suggest-*.log")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, log)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name()) // the first error is the one to report
	}
	return file.Name(), err
}

// splitOf returns where the fitted part ends: at the end of a day, if the log has several.
func splitOf(first, last int64) int64 {
	const day = int64(24 * time.Hour / time.Microsecond)
	split := first + int64(fitted*float64(last-first))
	if days := last/day - first/day; days >= 3 {
		split = (first/day + int64(math.Round(fitted*float64(days)))) * day
	}
	return max(split, first+1)
}

// fit makes the suggestions from what was read until now, and begins the measurement of the rest.
func (r *Report) fit(o *Options, scope *replay.Scope, fits []*fit) {
	compiled := map[string]*policy.Rule{}
	for i := range o.Policy.Options.Rules {
		compiled[o.Policy.Options.Rules[i].Name] = &o.Policy.Options.Rules[i]
	}
	for i, f := range fits {
		rule := Rule{Name: scope.Rules[i], Requests: f.requests, Keys: int64(f.curve.keys()), Curve: []Point{}, rule: compiled[scope.Rules[i]]}
		for _, part := range rule.rule.Key {
			rule.Key = append(rule.Key, part.String())
		}
		rule.suggest(o, f, r.Split.Sub(r.From))
		r.Rules = append(r.Rules, rule)
		f.curve.reset()
		f.requests = 0
	}
}

// suggest fits limits to the requests of a rule.
func (r *Rule) suggest(o *Options, f *fit, span time.Duration) {
	switch n := needed(o.Share); {
	case r.Keys == 0:
		r.Refused = "no request before the measured part is of the rule"
		return
	case r.Keys < int64(n):
		r.Refused = fmt.Sprintf("%d clients are too few to bound what %s of them need: %d are necessary. Give a longer log", r.Keys, page.Share(o.Share), n)
		if share := feasible(r.Keys); share > 0 {
			r.Refused += ", or a smaller --share, such as " + page.Share(share)
		}
		return
	case span < o.Per:
		r.Refused = fmt.Sprintf("the fitted part of the log lasts %v, less than the period %v; give a longer log or a shorter --per", span.Round(time.Second), o.Per)
		return
	}
	var wanted []int64
	for i := range grid {
		all := f.curve.bursts(i)
		r.bursts = append(r.bursts, all)
		wanted = append(wanted, quantile(all, o.Share))
	}
	if wanted[len(grid)-1] == math.MaxInt64 {
		r.Refused = "the costs are too large to count for this period; give a shorter --per"
		return
	}
	from, to := bend(wanted)
	for i := from; i <= to; i++ {
		p := Point{Rate: sluice.Per(grid[i], o.Per).String(), Count: grid[i]}
		for _, q := range Quantiles {
			if q == 1 || r.Keys >= int64(needed(q)) {
				p.Bursts = append(p.Bursts, quantile(r.bursts[i], q))
			}
		}
		r.Curve = append(r.Curve, p)
	}
	r.Knee = knee(grid[from:to+1], wanted[from:to+1])
	i := from + r.Knee
	r.Bucket = &Suggestion{Count: grid[i], Burst: max(f.most, sayable(o.Headroom*float64(wanted[i])))}
	r.Window = &Suggestion{Count: max(f.most, sayable(o.Headroom*float64(quantile(f.windows.counts(), o.Share))))}
}

// bend returns the part of a falling curve where it falls, with one point on both sides.
func bend(wanted []int64) (from, to int) {
	to = len(wanted) - 1
	for to > 0 && wanted[to-1] == wanted[len(wanted)-1] {
		to--
	}
	for from < to && wanted[from+1] > wanted[0]*9/10 {
		from++
	}
	return from, to
}

// feasible returns the largest usual share of which so many keys are enough.
func feasible(keys int64) float64 {
	for _, share := range [...]float64{0.99, 0.95, 0.9, 0.75, 0.5} {
		if keys >= int64(needed(share)) {
			return share
		}
	}
	return 0
}

// measure replays the suggested limits, and the limits of the file, over the rest of the log. All are in shadow, so that none
// changes what the others get.
func (r *Report) measure(ctx context.Context, o *Options, fits []*fit) error {
	p := *o.Policy
	p.Options.Rules, p.Options.Shadow = nil, true
	measured := map[string]*Measured{} // by the names of the rules that are replayed
	add := func(i int, s *Suggestion, a ...sluice.Algorithm) error {
		rule := *r.Rules[i].rule
		rule.Name = fmt.Sprintf("m%d", len(measured))
		measured[rule.Name], s.Measured.Keys = &s.Measured, int64(fits[i].curve.keys())
		rule.Candidate, rule.Overrides, rule.Ban, rule.BanShared, rule.Reserved, rule.Floor, rule.MaxWait = nil, nil, nil, false, nil, 0, 0
		rule.Bandwidth, rule.WhenLimited, rule.Limits, rule.Shadow, rule.MaxWaiting, rule.MaxWaitingPerKey = nil, policy.LimitedAction{}, nil, true, 0, 0
		for j, algorithm := range a {
			l, err := sluice.NewLimit(fmt.Sprintf("l%d", j), algorithm)
			if err != nil {
				return err
			}
			rule.Limits = append(rule.Limits, l)
		}
		p.Options.Rules = append(p.Options.Rules, rule)
		return nil
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		var errs []error
		if rule.Bucket != nil {
			bucket := sluice.TokenBucket{Rate: sluice.Per(rule.Bucket.Count, o.Per), Burst: rule.Bucket.Burst}
			window := sluice.FixedWindow{Rate: sluice.Per(rule.Window.Count, o.Per)}
			errs = append(errs, add(i, rule.Bucket, bucket), add(i, rule.Window, window))
			rule.Bucket.Limit = fmt.Sprintf("Token bucket: %v, up to %d at once", bucket.Rate, bucket.Burst)
			rule.Window.Limit = fmt.Sprintf("Fixed window: %v", window.Rate)
			rule.Bucket.YAML, rule.Window.YAML = rule.yaml(o, bucket), rule.yaml(o, window)
		}
		var now []sluice.Algorithm
		for _, l := range rule.rule.Limits {
			if o.Named && !l.IsConcurrency() {
				now = append(now, l.Algorithm())
			}
		}
		if len(now) > 0 {
			rule.Now = &Suggestion{Limit: strings.Trim(fmt.Sprint(now), "[]")}
			errs = append(errs, add(i, rule.Now, now...))
			if bucket, ok := now[0].(sluice.TokenBucket); ok {
				per := float64(o.Per) / float64(bucket.Rate.Period())
				rule.Now.Count, rule.Now.Burst = int64(float64(bucket.Rate.Count())*per), rule.rule.Limits[0].Capacity()
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	if len(measured) == 0 {
		return nil
	}
	measuring := o.Options
	measuring.Policy, measuring.Against, measuring.Logs.Since = &p, nil, r.Split
	report, err := replay.Run(ctx, measuring)
	if err != nil {
		return err
	}
	for _, line := range report.Rules {
		m := measured[line.Name]
		m.Requests, m.LimitedRequests, m.LimitedKeys = line.Requests, line.Limited, line.Keys
	}
	return nil
}

// yaml returns a rule with a limit, to paste into a file.
func (r *Rule) yaml(o *Options, a sluice.Algorithm) string {
	limit := ""
	switch a := a.(type) {
	case sluice.TokenBucket:
		limit = fmt.Sprintf("limit: {algorithm: token_bucket, rate: %v, burst: %d}", a.Rate, a.Burst)
	case sluice.FixedWindow:
		limit = fmt.Sprintf("limit: {algorithm: fixed_window, rate: %v}", a.Rate)
	}
	if o.Named {
		return limit
	}
	key := fmt.Sprintf("%q", r.Key[0])
	if len(r.Key) > 1 {
		key = "[\"" + strings.Join(r.Key, "\", \"") + "\"]"
	}
	return fmt.Sprintf("rules:\n  - name: %s\n    key: %s\n    %s", r.Name, key, limit)
}

func timeOf(at int64) time.Time { return time.UnixMicro(at).UTC() }
