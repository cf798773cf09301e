package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// checkEffects reports settings that can have no effect, because another setting makes them meaningless.
func (f *File) checkEffects(s *reader.Source) {
	bypass := map[string]bool{}
	for i := range f.Classes {
		bypass[f.Classes[i].Name] = f.Classes[i].Bypass
	}
	limited := map[string]bool{}
	for i := range f.Rules {
		r := &f.Rules[i]
		limited[r.Name] = len(r.LimitsGiven()) > 0 || r.Limit != nil
	}
	for i := range f.Rules {
		r, path := &f.Rules[i], fmt.Sprintf("rules[%d]", i)
		r.checkWaiting(s, path, f.queues(r))
		r.checkUnlimited(s, path)
		r.checkDescriptor(s, path)
		for j, name := range r.Match.Class {
			if bypass[name] {
				s.Follow(fmt.Sprintf("%s.match.class[%d]", path, j), reader.Quote(name)+" is a class that bypasses all rules, so the rule gets none of its requests", "leave it out, or remove bypass from the class")
			}
		}
		if p := r.Match.Pressure; p != nil {
			if has, known := limited[p.Of]; known && !has {
				s.Follow(path+".match.pressure.of", reader.Quote(p.Of)+" is a rule without a limit, which is never under pressure", "name a rule that has a limit")
			}
		}
		for j := range r.Key {
			if part := r.Key[j].Part; part == "global" || strings.HasPrefix(part, "constant:") {
				s.Idle(fmt.Sprintf("%s.key[%d].on_missing", path, j), r.Key[j].OnMissing != 0, "is given, and no request lacks "+reader.Quote(part), "remove it")
			}
		}
		if w := &r.WhenLimited; w.Body == "" && w.File == "" && !s.Has(path+".when_limited.body") {
			s.Idle(path+".when_limited.content_type", w.ContentType != "", "is given, and there is neither body nor file", "give one of them, or remove it")
		}
	}
}

// LimitsGiven returns the limits of a rule as they are given.
func (r *Rule) LimitsGiven() []Limit {
	if r.Limit != nil {
		return []Limit{*r.Limit}
	}
	return r.Limits
}

// checkWaiting reports settings about waiting where no request can wait. The argument planned says that plans have a
// queue for the rule.
func (r *Rule) checkWaiting(s *reader.Source, path string, planned bool) {
	given := r.LimitsGiven()
	if len(given) == 0 {
		return // checkUnlimited reports them
	}
	buckets := slices.ContainsFunc(given, func(l Limit) bool { return l.Algorithm == "token_bucket" })
	queues := planned || slices.ContainsFunc(given, func(l Limit) bool { return l.Queue > 0 }) || r.Overrides.File != "" ||
		slices.ContainsFunc(r.Overrides.List, func(o Override) bool {
			return o.Limit != nil && o.Limit.Queue > 0 || slices.ContainsFunc(o.Limits, func(n Numbers) bool { return n.Queue > 0 })
		})
	why, remedy := "no limit of the rule lets requests wait", "remove it, or use a token_bucket, or a leaky_bucket or concurrency limit with a queue"
	if slices.ContainsFunc(given, func(l Limit) bool { return l.Algorithm == "leaky_bucket" || l.Algorithm == "concurrency" }) {
		remedy = "remove it, or give the leaky_bucket or concurrency limit a queue"
	}
	waits := buckets || queues
	if r.MaxWait != nil && *r.MaxWait > 0 && !waits {
		s.Follow(path+".max_wait", fmt.Sprintf("is %v, and %s", *r.MaxWait, why), remedy)
		return
	}
	switch {
	case r.WhenLimited.Action == "degrade" || r.WhenLimited.Action == "mark":
		waits, why, remedy = false, "a rule that degrades or marks lets no request wait", "remove it"
	case r.MaxWait != nil && *r.MaxWait == 0:
		waits, why, remedy = false, "max_wait: 0s lets no request wait", "remove one of them"
	case waits && r.MaxWait == nil && !queues:
		waits, why, remedy = false, "a token_bucket lets requests wait only with a max_wait", "give max_wait, or remove it"
	}
	if !waits {
		s.Idle(path+".max_waiting", r.MaxWaiting != 0, "is given, and "+why, remedy)
		s.Idle(path+".max_waiting_per_key", r.MaxWaitingPerKey != 0, "is given, and "+why, remedy)
	}
}

// checkUnlimited reports settings about limits in a rule without a limit.
func (r *Rule) checkUnlimited(s *reader.Source, path string) {
	problem, remedy := "is given, and the rule has no limit, only a bandwidth", "remove it, or give a limit"
	switch {
	case r.Always:
		problem, remedy = "is given, and a rule that always limits has no limit that could use it", "remove it, or replace always by a limit"
	case r.Unlimited || r.Exempt:
		problem, remedy = "is given, and the rule has no limit that could use it", "remove it, or give a limit instead of unlimited or exempt"
	case len(r.LimitsGiven()) > 0 || r.Bandwidth == nil:
		return
	}
	for _, x := range []struct {
		name  string
		given bool
	}{
		{"cost", r.Cost.given()},
		{"overdraw", r.Overdraw},
		{"count_status", len(r.CountStatus) > 0},
		{"floor", r.Floor != 0},
		{"ban", r.Ban != nil},
		{"hybrid", r.Hybrid.given()},
		{"max_wait", r.MaxWait != nil},
		{"max_waiting", r.MaxWaiting != 0},
		{"max_waiting_per_key", r.MaxWaitingPerKey != 0},
	} {
		s.Idle(path+"."+x.name, x.given, problem, remedy)
	}
	refuses := r.Always || r.Deny != nil || slices.ContainsFunc(r.Key, func(k KeyPart) bool { return k.OnMissing == policy.MissingDeny })
	if !refuses {
		s.Idle(path+".reserved", len(r.Reserved) > 0, problem, remedy)
		s.Idle(path+".when_limited", false, problem, remedy)
	}
}

// Deployment says how the rules are used, as far as warnings need it.
type Deployment struct {
	// Memory is true for a store in the process.
	Memory bool
	// MethodOverride is true if the service gets headers that replace the method.
	MethodOverride bool
	// Proxies is true if there are trusted proxies.
	Proxies bool
}

// Warn reports settings of valid rules that probably do not do what their author wants.
func (f *File) Warn(s *reader.Source, d Deployment) {
	if !f.Joined() {
		f.warnHybrid(s, d)
		f.warnDescriptors(s)
		f.warnRemoved(s, d)
		f.warnBans(s)
	}
	for i := range f.Classes {
		f.Classes[i].Match.unknownMethods(s, fmt.Sprintf("classes[%d].match", i))
	}
	for i := range f.Rules {
		f.Rules[i].Match.unknownMethods(s, fmt.Sprintf("rules[%d].match", i))
	}
}

// Noted returns the warnings about the files themselves, and about rules of the files of a folder.
func (f *File) Noted(d Deployment) (all reader.Errors) {
	if f.source != nil {
		all = append(all, f.source.Warnings...)
	}
	for _, part := range f.parts {
		own := part.Blank()
		part.Warn(own, d)
		all = slices.Concat(all, part.source.Warnings, own.Mistakes())
	}
	return all
}
