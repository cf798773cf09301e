package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/expression"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
)

// warnRemoved reports rules and classes that read a header which no service gets from a client: it counts as missing.
func (f *File) warnRemoved(s *reader.Source, d Deployment) {
	for i := range f.Classes {
		d.warnHeaders(s, fmt.Sprintf("classes[%d].match", i), f.Classes[i].Match.headers(nil))
	}
	for i := range f.Rules {
		r := &f.Rules[i]
		if r.Descriptor != nil {
			continue
		}
		at := fmt.Sprintf("rules[%d]", i)
		d.warnHeaders(s, at+".match", r.Match.headers(nil))
		var keys []string
		for _, p := range r.readParts() {
			if p.Source == policy.FromHeader {
				keys = append(keys, p.Name)
			}
		}
		d.warnHeaders(s, at+".key", keys)
		if c := r.Cost; c.Source == policy.CostHeader || c.Source == 0 && c.Header != "" {
			d.warnHeaders(s, at+".cost", []string{c.Header})
		}
	}
}

// warnHeaders reports the first of some headers that a setting reads, and that counts as missing.
func (d Deployment) warnHeaders(s *reader.Source, path string, names []string) {
	for _, name := range names {
		why := removal.Of(name)
		switch {
		case why.FromClients(d.MethodOverride), why.FromProxies() && d.Proxies:
		case why.FromProxies():
			s.FollowKey(path, "reads the header "+name+", which the proxy removes or replaces, so it counts as missing: only trusted proxies may send it, and there are none",
				"list the proxies that set it under trusted_proxies, or use client_ip or another header")
			return
		default:
			s.FollowKey(path, "reads the header "+name+", which is for one connection only and reaches no service, so it counts as missing", "use another header")
			return
		}
	}
}

// headers appends the headers that a match reads.
func (m *Match) headers(names []string) []string {
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, text := range m.If {
		e, err := expression.Parse(text)
		if err != nil {
			continue // it is reported as a mistake
		}
		for _, v := range e.Reads() {
			if v.Source == policy.FromHeader {
				names = append(names, v.Name)
			}
		}
	}
	for i := range m.Unless {
		names = m.Unless[i].headers(names)
	}
	return names
}

// inBraces are the parts of a template.
var inBraces = regexp.MustCompile(`\{([^{}]*)\}`)

// readParts returns the parts of a rule's key, and the parts of templates one by one.
func (r *Rule) readParts() (parts []policy.Part) {
	for _, k := range r.Key {
		texts := []string{k.Part}
		if strings.HasPrefix(k.Part, "{") || inBraces.MatchString(k.Part) {
			texts = nil
			for _, m := range inBraces.FindAllStringSubmatch(k.Part, -1) {
				texts = append(texts, m[1])
			}
		}
		for _, text := range texts {
			if p, err := policy.ParsePart(text); err == nil { // otherwise it is reported as a mistake
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// warnBans reports bans on keys that a client can send in the name of another one.
func (f *File) warnBans(s *reader.Source) {
	for i := range f.Rules {
		r := &f.Rules[i]
		parts := r.readParts()
		if r.Ban == nil || r.Ban.After == 0 || r.Ban.Shared || len(parts) == 0 {
			continue
		}
		own := slices.ContainsFunc(parts, func(p policy.Part) bool { return p.OfClient() && !p.Chosen() })
		var chosen []string
		for _, p := range parts {
			if p.Chosen() && !own {
				chosen = append(chosen, p.String())
			}
		}
		if len(chosen) > 0 {
			s.FollowKey(fmt.Sprintf("rules[%d].ban", i), "bans by "+strings.Join(chosen, " and ")+", which any client can send: one client can have another one banned, or a resource for all",
				"add client_ip or a claim to the key, or set shared: true if the value is a secret or the ban is meant so")
		}
	}
}
