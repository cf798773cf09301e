package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// PolicyOptions returns the file's rules as the options of a policy. A program can
// add to them. The error is an Errors.
func (f *File) PolicyOptions() (policy.Options, error) {
	s := f.Blank()
	o, _ := f.options(s)
	return o, s.Err()
}

// compile makes the policy. If it reports a mistake, it returns nil.
func (f *File) compile(s *reader.Source) *policy.Policy {
	o, where := f.options(s)
	p, err := policy.New(o)
	if err == nil {
		if s.Failed("") {
			return nil
		}
		return p
	}
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		s.Report("", err.Error(), "")
		return nil
	}
	for _, err := range all.Unwrap() {
		var bad *policy.RuleError
		if errors.As(err, &bad) {
			where[bad.Index+1].report(f, s, bad)
		} else {
			s.Report("", err.Error(), "")
		}
	}
	return nil
}

// encodedSlashes are the choices of paths.encoded_slash.
var encodedSlashes = map[string]policy.EncodedSlash{"any": policy.SlashAny, "keep": policy.SlashKeep, "decode": policy.SlashDecode}

func (f *File) options(s *reader.Source) (policy.Options, []origins) {
	o := policy.Options{
		Default:      f.Default,
		OnStoreError: f.OnStoreError,
		IPv6Prefix:   f.IPv6Prefix,
		Shadow:       f.Shadow,
		Domains:      f.Domains,
		Paths: policy.Paths{
			IgnoreCase:   f.Paths.IgnoreCase,
			EncodedSlash: encodedSlashes[f.Paths.EncodedSlash],
			StripParams:  f.Paths.StripParams,
		},
	}
	if f.IPv6Prefix < 0 || f.IPv6Prefix > 128 {
		o.IPv6Prefix = 0 // reported by check
	}
	// The first one is for the policy itself.
	where := make([]origins, len(f.Rules)+1)
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
			problem := fmt.Sprintf("%s is the name of %s too", reader.Quote(r.Name), other)
			if pos := s.Find(other + ".name"); pos.Line > 0 {
				problem += fmt.Sprintf(", on line %d", pos.Line)
			}
			s.Follow(path+".name", problem, "give each rule its own, because its state is kept under it")
		} else {
			first[r.Name] = path
		}
		o.Rules = append(o.Rules, r.rule(f, s, path, &where[i+1]))
	}
	f.plans(s, &o, where)
	return o, where
}

// rule makes a rule of the policy.
func (r *Rule) rule(f *File, s *reader.Source, path string, where *origins) policy.Rule {
	where.base = path
	p := policy.Rule{
		Name:   r.Name,
		Always: r.Always, Unlimited: r.Unlimited, Exempt: r.Exempt,
		Cost: policy.Cost{
			Source: r.Cost.Source, Units: r.Cost.Units, Header: r.Cost.Header, Estimate: r.Cost.Estimate, Max: r.Cost.Max,
		},
		Overdraw: r.Overdraw, Floor: r.Floor,
		MaxWaiting: r.MaxWaiting, MaxWaitingPerKey: r.MaxWaitingPerKey,
		Bandwidth:    r.Bandwidth.build(s, path+".bandwidth"),
		Shadow:       r.Shadow,
		OnStoreError: r.OnStoreError,
		WhenLimited:  r.WhenLimited.build(f, s, path+".when_limited", where),
		Match:        r.Match.build(s, path+".match", "Match", where),
	}
	p.Cost.Model = r.Cost.model(f, s, path+".cost", where)
	where.set("Match.Descriptor", path+".descriptor")
	p.Match.Descriptor = r.Descriptor.build()
	for _, status := range r.CountStatus {
		p.CountStatus = append(p.CountStatus, policy.StatusRange(status))
	}
	if r.MaxWait != nil {
		if p.MaxWait = *r.MaxWait; p.MaxWait == 0 {
			p.MaxWait = sluice.NoWait
		}
	}
	if r.Ahead != nil {
		p.Ahead = &policy.Ahead{Units: r.Ahead.Units, For: r.Ahead.For}
	}
	if r.Ban != nil {
		p.Ban, p.BanShared = r.Ban.terms(s, path+".ban", where), r.Ban.Shared
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

// limits fills in the limits of a rule, and returns the settings that they were made from.
func (r *Rule) limits(s *reader.Source, path string, p *policy.Rule, where *origins) []Limit {
	given := r.Limits
	at := func(i int) string { return fmt.Sprintf("%s.limits[%d]", path, i) }
	if r.Limit != nil {
		given, at = []Limit{*r.Limit}, func(int) string { return path + ".limit" }
		if r.Limits != nil {
			s.Follow(path+".limits", "are given, and there is a limit too", "put all of them under limits")
		}
	} else if len(given) == 0 && !r.Always && !r.Unlimited && !r.Exempt && r.Bandwidth == nil {
		where.bad = true
		if s.Failed(path + ".limit") { // misspelt
			return given
		}
		s.Follow(path+".limits", "is missing: the rule has no limit", "give one such as limit: {algorithm: token_bucket, rate: 100/m}")
	}
	p.Limits = r.build(s, path, given, "Limits", at, where)
	p.Candidate = r.build(s, path, r.Candidate, "Candidate", func(i int) string { return fmt.Sprintf("%s.candidate[%d]", path, i) }, where)
	return given
}

// build makes limits of the rule, and records where they come from.
func (r *Rule) build(s *reader.Source, path string, given []Limit, field string, at func(int) string, where *origins) (limits []*sluice.Limit) {
	for i := range given {
		l := given[i].build(s, at(i))
		if l != nil {
			l = r.hybrid(s, path, at(i), l)
		}
		if l == nil {
			where.bad = true
			continue
		}
		made := fmt.Sprintf("%s[%d]", field, len(limits))
		where.set(made, at(i))
		where.set(made+".Hybrid", path+".hybrid")
		limits = append(limits, l)
	}
	return limits
}

// origins holds the settings from which the fields of a rule, or of the policy itself, were made.
type origins struct {
	base string // the path of the rule, empty for the policy
	at   map[string]spot
	// entries are the entries of long lists, by the field's name.
	entries map[string][]spot
	// rows is the file of more overrides, and lines are the lines that they come from.
	rows  spot
	lines []int32
	bad   bool // whether a limit could not be made
}

// spot is a setting, or a line of another file that the setting names.
type spot struct {
	path string
	pos  reader.Pos
	file string // empty for the file itself
}

// set records where a field comes from.
func (o *origins) set(field, path string) { o.put(field, spot{path: path}) }

// put records where a field comes from, which may be another file.
func (o *origins) put(field string, at spot) {
	if o.at == nil {
		o.at = map[string]spot{}
	}
	o.at[field] = at
}

// add records where the next entry of a list comes from.
func (o *origins) add(field string, at spot) {
	if o.entries == nil {
		o.entries = map[string][]spot{}
	}
	o.entries[field] = append(o.entries[field], at)
}

var listField = regexp.MustCompile(`^(.*)\[(\d+)\]$`)

// find returns the setting of a field.
func (o *origins) find(field string) spot {
	words := strings.Split(field, ".")
	for n := len(words); n > 0; n-- {
		at, known := o.at[strings.Join(words[:n], ".")]
		if !known && n == 1 {
			if m := listField.FindStringSubmatch(words[0]); m != nil {
				i, _ := strconv.Atoi(m[2])
				if listed := o.entries[m[1]]; i < len(listed) {
					at, known = listed[i], true
				} else if i -= len(listed); m[1] == "Overrides" && i < len(o.lines) {
					at, known = o.rows, true
					at.pos = reader.Pos{Line: int(o.lines[i]), Column: 1}
				}
			}
		}
		if !known {
			continue
		}
		if at.file == "" {
			at.path += settingOfField(words[n:])
		}
		return at
	}
	if o.base == "" && strings.HasPrefix(words[0], "Classes[") {
		return spot{path: "classes" + strings.TrimPrefix(words[0], "Classes") + settingOfField(words[1:])}
	}
	return spot{path: strings.TrimPrefix(o.base+settingOfField(words), ".")}
}

// settings has the names of a policy's fields in a file, for names that are not only another spelling
// of the field's name.
var settings = map[string]string{
	"Paths": "path", "Methods": "method", "Hosts": "host", "Headers": "header", "Cookies": "cookie", "Queries": "query",
	"Attributes": "attribute", "ClientIPs": "client_ip", "Classes": "class", "Pressure": "pressure.at_least", "PressureOf": "pressure.of",
	"AllowKeys": "allow.key", "DenyKeys": "deny.key", "AllowIPs": "allow.client_ip", "DenyIPs": "deny.client_ip",
	"IPv6Prefix": "ipv6_prefix", "TTL": "ttl", "BanShared": "ban.shared",
}

// settingOfField returns the path of a field within its rule.
func settingOfField(words []string) string {
	var b strings.Builder
	for _, word := range words {
		index := ""
		if i := strings.IndexByte(word, '['); i >= 0 {
			word, index = word[:i], word[i:]
		}
		name := settings[word]
		if name == "" {
			name = snake(word)
		}
		b.WriteString("." + name + index)
	}
	return b.String()
}

// snake writes "MaxWait" as "max_wait".
func snake(word string) string {
	var b strings.Builder
	for i, r := range word {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// report reports a mistake that the policy has found.
func (o *origins) report(f *File, s *reader.Source, e *policy.RuleError) {
	if o.bad && consequence(e.Field) {
		return
	}
	problem := e.Problem
	if e.Value != "" {
		problem = reader.Quote(e.Value) + " " + problem
	}
	o.find(e.Field).follow(s, problem, cmp.Or(f.meant(e), e.Remedy))
}

// consequence reports whether a mistake may follow from a limit or an expression that could not be made.
func consequence(field string) bool {
	top, _, _ := strings.Cut(field, ".")
	switch top {
	case "Limits", "Floor", "Cost", "Reserved", "Overrides":
		return true
	}
	return strings.HasPrefix(top, "Plans[") || top == "Match" && strings.Contains(field, "Unless")
}

// meant suggests the class, rule or plan that a misspelt name probably means, "" for other mistakes.
func (f *File) meant(e *policy.RuleError) string {
	var known []string
	switch e.Problem {
	case "is not a class of the policy":
		for i := range f.Classes {
			known = append(known, f.Classes[i].Name)
		}
	case "is not a rule of the policy":
		for i := range f.Rules {
			known = append(known, f.Rules[i].Name)
		}
	case "is not a plan of the policy":
		known = slices.Sorted(maps.Keys(f.Plans))
	default:
		return ""
	}
	return reader.DidYouMean(e.Value, known)
}
