package policyfile

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// PolicyOptions returns the file's rules as the options of a policy, for a program
// that wants to add to them. The error is an Errors.
func (f *File) PolicyOptions() (policy.Options, error) {
	s := f.blank()
	o, _ := f.options(s)
	return o, s.err()
}

// compile makes the policy. If it reports a mistake, it returns nil.
func (f *File) compile(s *source) *policy.Policy {
	o, places := f.options(s)
	p, err := policy.New(o)
	if err == nil {
		if len(s.errs) > 0 {
			return nil
		}
		return p
	}
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		s.report("", err.Error(), "")
		return nil
	}
	for _, err := range all.Unwrap() {
		var bad *policy.RuleError
		if errors.As(err, &bad) {
			places.report(s, bad)
		} else {
			s.report("", err.Error(), "")
		}
	}
	return nil
}

// places knows which settings the fields of a policy come from.
type places []rulePlaces

type rulePlaces struct {
	limits  []string // the path of each limit
	headers []string // the name of each header of the match
	bad     bool     // there are limits that could not be made
}

func (f *File) options(s *source) (policy.Options, places) {
	o := policy.Options{
		Default:      f.Default,
		OnStoreError: f.OnStoreError,
		IPv6Prefix:   f.IPv6Prefix,
		Paths: policy.Paths{
			IgnoreCase:    f.Paths.IgnoreCase,
			DecodeSlashes: f.Paths.EncodedSlash == "decode",
			StripParams:   f.Paths.StripParams,
		},
	}
	if f.IPv6Prefix < 0 || f.IPv6Prefix > 128 {
		o.IPv6Prefix = 0 // reported by check
	}
	where := make(places, len(f.Rules))
	first := map[string]string{}
	for i := range f.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		r := &f.Rules[i]
		if other, taken := first[r.Name]; taken && r.Name != "" {
			problem := fmt.Sprintf("%s is the name of %s too", quote(r.Name), other)
			if pos := s.find(other + ".name"); pos.Line > 0 {
				problem += fmt.Sprintf(", in line %d", pos.Line)
			}
			s.follow(path+".name", problem, "give each rule its own, for its state is kept under it")
		} else {
			first[r.Name] = path
		}
		o.Rules = append(o.Rules, r.rule(s, path, &where[i]))
	}
	return o, where
}

// rule makes a rule of the policy.
func (r *Rule) rule(s *source, path string, where *rulePlaces) policy.Rule {
	p := policy.Rule{
		Name:         r.Name,
		Cost:         policy.Cost{Units: r.Cost.Units, Header: r.Cost.Header, Max: r.Cost.Max},
		Floor:        r.Floor,
		Shadow:       r.Shadow,
		OnStoreError: r.OnStoreError,
		WhenLimited: policy.Response{
			Status: r.WhenLimited.Status, Header: r.WhenLimited.Header,
			ContentType: r.WhenLimited.ContentType, Body: r.WhenLimited.Body,
		},
		Match: policy.Match{Paths: r.Match.Path, Methods: r.Match.Method, Hosts: r.Match.Host},
	}
	if a := r.WhenLimited.Action; a != "" && a != "reject" {
		s.follow(path+".when_limited.action", quote(a)+" is unknown", "give reject")
	}
	if r.MaxWait != nil {
		if p.MaxWait = *r.MaxWait; p.MaxWait == 0 {
			p.MaxWait = sluice.NoWait
		}
	}
	if r.Ban != nil {
		p.Ban = r.Ban.terms(s, path+".ban")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Match.Header)) {
		m := r.Match.Header[name]
		p.Match.Headers = append(p.Match.Headers, m.match(s, child(path, "match.header."+name), name))
		where.headers = append(where.headers, name)
	}
	for i := range r.Key {
		p.Key = append(p.Key, r.Key[i].build(s, fmt.Sprintf("%s.key[%d]", path, i)))
	}
	r.limits(s, path, &p, where)
	return p
}

func (r *Rule) limits(s *source, path string, p *policy.Rule, where *rulePlaces) {
	given := r.Limits
	at := func(i int) string { return fmt.Sprintf("%s.limits[%d]", path, i) }
	if r.Limit != nil {
		given, at = []Limit{*r.Limit}, func(int) string { return path + ".limit" }
		if r.Limits != nil {
			s.follow(path+".limits", "are given, and there is a limit too", "put all of them under limits")
		}
	} else if len(given) == 0 {
		where.bad = true
		s.follow(path+".limits", "is missing: the rule has no limit", "give one such as limit: {algorithm: token_bucket, rate: 100/m}")
	}
	for i := range given {
		if l := given[i].build(s, at(i)); l != nil {
			p.Limits = append(p.Limits, l)
			where.limits = append(where.limits, at(i))
		} else {
			where.bad = true
		}
	}
}

// match makes the condition on a header.
func (m *HeaderMatch) match(s *source, path, name string) policy.ValueMatch {
	h := policy.ValueMatch{Name: name, OneOf: m.Is, Prefixes: m.Prefix, Absent: m.Present != nil && !*m.Present}
	if slices.Contains(m.Is, "*") {
		if len(m.Is) > 1 || len(m.Prefix) > 0 {
			s.follow(path, `has "*", which is for any value, among others`, `give "*" alone, or the values`)
		}
		h.OneOf = nil
	}
	return h
}

// build makes the part of a key.
func (k *KeyPart) build(s *source, path string) policy.Part {
	p, err := policy.ParsePart(k.Part)
	if err != nil {
		at := path
		if s.has(path + ".part") {
			at += ".part"
		}
		word, name, named := strings.Cut(k.Part, ":")
		parts := []string{"client_ip", "header:NAME", "cookie:NAME", "query:NAME", "path", "param:NAME", "route", "method", "host", "global", "constant:TEXT"}
		switch {
		case k.Part == "":
			s.follow(at, "is missing", "give client_ip or another part")
		case named && name == "":
			s.follow(at, quote(k.Part)+" has no name", fmt.Sprintf("write %s:NAME", word))
		case named && slices.Contains(parts, word):
			s.follow(at, quote(k.Part)+" has a name, and takes none", "write "+word)
		default:
			words := make([]string, len(parts))
			for i, w := range parts {
				words[i], _, _ = strings.Cut(w, ":")
			}
			suggestion := "give " + oneOf(parts)
			if w := nearest(word, words); w != "" {
				suggestion = fmt.Sprintf("did you mean %q?", strings.TrimSuffix(w+":"+name, ":"))
			}
			if !named && slices.Contains(words, word) {
				suggestion = fmt.Sprintf("write %s:NAME", word)
			}
			s.follow(at, quote(k.Part)+" is no part of a key", suggestion)
		}
		// A part that does not fail again.
		p = policy.Global()
	}
	p.OnMissing, p.IPv6Prefix = k.OnMissing, k.IPv6Prefix
	return p
}

var listField = regexp.MustCompile(`^(.*)\[(\d+)\](.*)$`)

// settings are the names that fields of a policy have in a file.
var settings = map[string]string{
	"Name": "name", "Match.Paths": "match.path", "Match.Methods": "match.method", "Match.Hosts": "match.host",
	"Key": "key", "Limits": "limits", "Floor": "floor", "MaxWait": "max_wait",
	"Cost.Units": "cost.units", "Cost.Header": "cost.header", "Cost.Max": "cost.max",
	"Ban.After": "ban.after", "Ban.For": "ban.for", "Ban.Within": "ban.within", "Ban.Forget": "ban.forget", "Ban.Escalate": "ban.for",
	"WhenLimited.Status": "when_limited.status", "WhenLimited.ContentType": "when_limited.content_type",
	"OnStoreError": "on_store_error", "IPv6Prefix": "ipv6_prefix", "Default": "default",
}

// report reports a mistake that the policy has found.
func (ps places) report(s *source, e *policy.RuleError) {
	problem := e.Problem
	if e.Value != "" {
		problem = quote(e.Value) + " " + problem
	}
	if e.Index < 0 {
		s.follow(settings[e.Field], problem, "")
		return
	}
	where := &ps[e.Index]
	path := fmt.Sprintf("rules[%d]", e.Index)
	field := e.Field
	if m := listField.FindStringSubmatch(e.Field); m != nil {
		index, rest := 0, m[3]
		field = m[1]
		_, _ = fmt.Sscan(m[2], &index) // digits
		switch field {
		case "Match.Headers":
			path += ".match.header." + where.headers[index]
		case "Ban.Escalate": // all but the first
			path = fmt.Sprintf("%s.ban.for[%d]", path, index+1)
		case "Limits":
			path = where.limits[index] + strings.ToLower(rest)
		default:
			path = fmt.Sprintf("%s.%s[%d]", path, settings[field], index)
		}
		s.followIn(path, problem)
		return
	}
	if where.bad && (field == "Limits" || field == "Floor" || strings.HasPrefix(field, "Cost")) {
		return // a consequence of a limit that was not made
	}
	if field == "WhenLimited.Header" {
		path += ".when_limited.header." + e.Value
	} else {
		path += "." + settings[field]
	}
	s.followIn(path, problem)
}

// followIn reports a mistake, split into what is wrong and what would be right.
func (s *source) followIn(path, problem string) {
	problem, suggestion, _ := strings.Cut(problem, "; ")
	s.follow(path, problem, suggestion)
}
