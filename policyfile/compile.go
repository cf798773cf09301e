package policyfile

import (
	"errors"
	"fmt"
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
			places[bad.Index+1].report(s, bad)
		} else {
			s.report("", err.Error(), "")
		}
	}
	return nil
}

func (f *File) options(s *source) (policy.Options, []places) {
	o := policy.Options{
		Default:      f.Default,
		OnStoreError: f.OnStoreError,
		IPv6Prefix:   f.IPv6Prefix,
		Shadow:       f.Shadow,
		Paths: policy.Paths{
			IgnoreCase:    f.Paths.IgnoreCase,
			DecodeSlashes: f.Paths.EncodedSlash == "decode",
			StripParams:   f.Paths.StripParams,
		},
	}
	if f.IPv6Prefix < 0 || f.IPv6Prefix > 128 {
		o.IPv6Prefix = 0 // reported by check
	}
	// The first are those of the policy itself.
	where := make([]places, len(f.Rules)+1)
	for i := range f.Classes {
		c, at := &f.Classes[i], fmt.Sprintf("classes[%d]", i)
		o.Classes = append(o.Classes, policy.Class{
			Name: c.Name, Bypass: c.Bypass,
			Match: c.Match.build(s, at+".match", fmt.Sprintf("Classes[%d].Match", i), &where[0]),
		})
	}
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
		o.Rules = append(o.Rules, r.rule(f, s, path, &where[i+1]))
	}
	return o, where
}

// actions are the actions of rules.
var actions = map[string]policy.Action{"": policy.Deny, "reject": policy.Deny, "degrade": policy.Degrade, "mark": policy.Mark}

// rule makes a rule of the policy.
func (r *Rule) rule(f *File, s *source, path string, where *places) policy.Rule {
	where.base = path
	p := policy.Rule{
		Name:   r.Name,
		Always: r.Always,
		Cost: policy.Cost{
			Source: r.Cost.Source, Units: r.Cost.Units, Header: r.Cost.Header, Estimate: r.Cost.Estimate, Max: r.Cost.Max,
		},
		CountStatus: r.CountStatus,
		Floor:       r.Floor,
		MaxWaiting:  r.MaxWaiting, MaxWaitingPerKey: r.MaxWaitingPerKey,
		Bandwidth:    r.Bandwidth.build(s, path+".bandwidth"),
		Shadow:       r.Shadow,
		OnStoreError: r.OnStoreError,
		WhenLimited:  r.WhenLimited.build(f, s, path+".when_limited", where),
		Match:        r.Match.build(s, path+".match", "Match", where),
	}
	if r.MaxWait != nil {
		if p.MaxWait = *r.MaxWait; p.MaxWait == 0 {
			p.MaxWait = sluice.NoWait
		}
	}
	if r.Ban != nil {
		p.Ban = r.Ban.terms(s, path+".ban", where)
	}
	for i := range r.Key {
		p.Key = append(p.Key, r.Key[i].build(s, fmt.Sprintf("%s.key[%d]", path, i)))
	}
	for i := range r.Reserved {
		p.Reserved = append(p.Reserved, r.Reserved[i].build(s, fmt.Sprintf("%s.reserved[%d]", path, i)))
	}
	given := r.limits(s, path, &p, where)
	if !where.bad {
		r.overrides(f, s, path, given, &p, where)
	}
	r.lists(f, s, path, &p, where)
	return p
}

// limits fills in the limits of a rule, and returns what they were made of.
func (r *Rule) limits(s *source, path string, p *policy.Rule, where *places) []Limit {
	given := r.Limits
	at := func(i int) string { return fmt.Sprintf("%s.limits[%d]", path, i) }
	if r.Limit != nil {
		given, at = []Limit{*r.Limit}, func(int) string { return path + ".limit" }
		if r.Limits != nil {
			s.follow(path+".limits", "are given, and there is a limit too", "put all of them under limits")
		}
	} else if len(given) == 0 && !r.Always && r.Bandwidth == nil {
		where.bad = true
		s.follow(path+".limits", "is missing: the rule has no limit", "give one such as limit: {algorithm: token_bucket, rate: 100/m}")
	}
	p.Limits = build(s, given, "Limits", at, where)
	p.Candidate = build(s, r.Candidate, "Candidate", func(i int) string { return fmt.Sprintf("%s.candidate[%d]", path, i) }, where)
	return given
}

// build makes limits, and says where they come from.
func build(s *source, given []Limit, field string, at func(int) string, where *places) (limits []*sluice.Limit) {
	for i := range given {
		l := given[i].build(s, at(i))
		if l == nil {
			where.bad = true
			continue
		}
		where.set(fmt.Sprintf("%s[%d]", field, len(limits)), at(i))
		limits = append(limits, l)
	}
	return limits
}

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

// build makes the part of a key.
func (k *KeyPart) build(s *source, path string) policy.Part {
	text := k.Part
	if strings.HasPrefix(text, "{") {
		text = "template:" + text
	}
	p, err := policy.ParsePart(text)
	if err != nil {
		at := path
		if s.has(path + ".part") {
			at += ".part"
		}
		word, name, named := strings.Cut(k.Part, ":")
		parts := []string{"client_ip", "header:NAME", "cookie:NAME", "query:NAME", "path", "param:NAME", "route", "method", "host", "claim:NAME", "attribute:NAME", "global", "constant:TEXT", "template:TEXT"}
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

// keyParts returns how many values a key of the rule has.
func (r *Rule) keyParts() (n int) {
	for i := range r.Key {
		if part := r.Key[i].Part; strings.HasPrefix(part, "{") || strings.HasPrefix(part, "template:") {
			n += strings.Count(part, "{")
		} else {
			n++
		}
	}
	return n
}
