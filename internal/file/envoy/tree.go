package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
)

// importer makes rules from the trees of several files.
type importer struct {
	options Options
	size    int                        // of the files so far, in bytes
	domains map[string]string          // the file of each domain
	seen    map[string]map[string]bool // the entries below each level, by the level's own path
}

// level is a level of the tree, and its settings.
type level struct {
	*descriptor
	path string
}

// part is one file that is being read.
type part struct {
	*importer
	*reader.Source
	domain string
	file   rules.File
}

// add adds the rules of a descriptor and of all descriptors below it. The argument above has the levels above.
func (p *part) add(d *descriptor, path string, above []level) {
	composite := d.Key
	if d.Value != "" {
		composite += "_" + d.Value
	}
	p.check(d, path, composite, above)
	levels := slices.Concat(above, []level{{d, path}})
	switch {
	case d.RateLimit != nil:
		p.limited(d.RateLimit, levels)
	case len(d.Descriptors) == 0:
		p.rule(levels, rules.Rule{Exempt: true})
		p.unused(d, path)
	default:
		p.unused(d, path)
	}
	for i := range d.Descriptors {
		p.add(&d.Descriptors[i], fmt.Sprintf("%s.descriptors[%d]", path, i), levels)
	}
}

// identity returns a text that identifies a list of levels.
func (p *part) identity(levels []level) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", p.domain)
	for _, l := range levels {
		fmt.Fprintf(&b, " %q=%q", l.Key, l.Value)
	}
	return b.String()
}

// check checks the key and the value of a descriptor.
func (p *part) check(d *descriptor, path, composite string, above []level) {
	switch {
	case d.Key == "":
		p.Follow(path+".key", "is missing", "give the key of the descriptor's entry")
		return
	case strings.Contains(d.Key, "*"):
		p.Follow(path+".key", reader.Quote(d.Key)+" has a star, and keys are compared exactly", "put the star into the value")
	case d.ShareThreshold && !strings.Contains(d.Value, "*"):
		p.Follow(path+".share_threshold", "is set, and the value has no star", "remove it, or give a value such as \"files*\"")
	}
	parent := p.identity(above)
	if p.seen[parent] == nil {
		p.seen[parent] = map[string]bool{}
	}
	if p.seen[parent][composite] {
		p.Follow(path, fmt.Sprintf("has the composite key %s, which another descriptor of this level has too", reader.Quote(composite)), "remove one of them")
	}
	p.seen[parent][composite] = true
}

// unused warns of settings of a descriptor that has no limit.
func (p *part) unused(d *descriptor, path string) {
	for _, x := range []struct {
		name  string
		given bool
	}{{"shadow_mode", d.ShadowMode}, {"quota_mode", d.QuotaMode}, {"detailed_metric", d.DetailedMetric}, {"metadata", d.Metadata != nil}} {
		if x.given {
			p.Warn(path+"."+x.name, "has no effect without a rate_limit beside it, and does not hold for the descriptors below", "put it beside a rate_limit, or remove it")
		}
	}
	for _, name := range []string{"limits", "debit", "candidate", "overrides", "allow", "deny", "cost", "floor", "hybrid", "ban", "when_limited", "on_store_error"} {
		if p.Has(path + "." + name) {
			p.Follow(path+"."+name, "is given, and there is no rate_limit beside it", "give a rate_limit, or remove it")
		}
	}
}

// mostPerUnit is the highest count of a limit, which the protocol bounds.
const mostPerUnit = math.MaxUint32

// limited adds the rule of a descriptor with a limit.
func (p *part) limited(l *rateLimit, levels []level) {
	path := levels[len(levels)-1].path + ".rate_limit"
	for i, r := range l.Replaces {
		switch at := fmt.Sprintf("%s.replaces[%d]", path, i); r.Name {
		case "":
			p.Follow(at, "has no name", "give the name of another limit, or remove the entry")
		case l.Name:
			p.Follow(at+".name", reader.Quote(r.Name)+" is the limit's own name", "give the name of another limit")
		}
	}
	period, known := units[strings.ToLower(l.Unit)]
	if l.Unlimited {
		if known {
			p.Follow(path+".unit", "is given, and the limit is unlimited", "remove one of them")
		}
		if p.Has(path + ".requests_per_unit") {
			p.Warn(path+".requests_per_unit", "has no effect, because the limit is unlimited", "remove one of them")
		}
		if l.given() {
			p.Follow(path, "has an algorithm or its numbers, and is unlimited", "remove them, or unlimited")
		}
		if quota := levels[len(levels)-1].path + ".quota_mode"; p.Has(quota) {
			p.Warn(quota, "has no effect, because the limit is unlimited", "remove one of them")
		}
		p.rule(levels, rules.Rule{Unlimited: true})
		return
	}
	switch {
	case l.Unit == "":
		p.Follow(path+".unit", "is missing", "give second, minute, hour, day, week, month or year")
		return
	case !known:
		p.Follow(path+".unit", reader.Quote(l.Unit)+" is not a unit", reader.DidYouMean(strings.ToLower(l.Unit), []string{"second", "minute", "hour", "day", "week", "month", "year"}))
		return
	case l.RequestsPerUnit > mostPerUnit:
		p.Follow(path+".requests_per_unit", fmt.Sprintf("is %d", l.RequestsPerUnit), fmt.Sprintf("give %d or less", int64(mostPerUnit)))
		return
	case l.UnitMultiplier < 0 || l.UnitMultiplier > int64(math.MaxInt64/period):
		p.Follow(path+".unit_multiplier", fmt.Sprintf("is %d", l.UnitMultiplier), "give 1 or more, up to 100 years in all")
		return
	}
	period *= time.Duration(max(1, l.UnitMultiplier))
	if l.RequestsPerUnit == 0 {
		if !p.Has(path + ".requests_per_unit") {
			p.Warn(path, "has no requests_per_unit, which means 0: it denies everything", "give requests_per_unit")
		}
		if l.given() {
			p.Follow(path, "has an algorithm or its numbers, and requests_per_unit is 0, so nothing is counted", "remove them, or give a number above 0")
		}
		p.rule(levels, rules.Rule{Always: true, Descriptor: &rules.Descriptor{Period: period}})
		return
	}
	p.rule(levels, rules.Rule{Limit: l.limit(period)})
}

// rule adds a rule for the descriptor at the end of some levels.
func (p *part) rule(levels []level, r rules.Rule) {
	at := fmt.Sprintf("rules[%d]", len(p.file.Rules))
	d := levels[len(levels)-1]
	if r.Descriptor == nil {
		r.Descriptor = &rules.Descriptor{}
	}
	m := r.Descriptor
	m.Domain = p.domain
	p.Alias(at, d.path)
	p.Alias(at+".key", at+".key") // the key of the descriptor is another one
	p.Alias(at+".descriptor.domain", "domain")
	for i, l := range levels {
		m.Entries = append(m.Entries, rules.DescriptorEntry{Key: l.Key, Value: l.Value, Shared: l.ShareThreshold, Counted: l.ValueToMetric})
		entry := fmt.Sprintf("%s.descriptor.entries[%d]", at, i)
		p.Alias(entry, l.path)
		p.Alias(entry+".shared", l.path+".share_threshold")
		p.Alias(entry+".counted", l.path+".value_to_metric")
	}
	if limit := d.RateLimit; limit != nil {
		p.decorate(&r, d, at)
	}
	r.Name = p.name(levels)
	p.file.Rules = append(p.file.Rules, r)
}

// decorate fills in the settings of a rule with a limit.
func (p *part) decorate(r *rules.Rule, d level, at string) {
	m, limit := r.Descriptor, d.RateLimit
	m.Debit = r.Limit != nil && p.debits(d)
	m.Label, m.Quota, m.Detailed, m.Metadata = limit.Name, d.QuotaMode || p.options.Quota, d.DetailedMetric, d.Metadata
	if r.Unlimited {
		m.Quota = false
	}
	r.Shadow = d.ShadowMode
	for _, replaced := range limit.Replaces {
		m.Replaces = append(m.Replaces, replaced.Name)
	}
	limitAt := d.path + ".rate_limit"
	for to, from := range map[string]string{
		".descriptor.label": limitAt + ".name", ".descriptor.replaces": limitAt + ".replaces", ".descriptor.quota": d.path + ".quota_mode", ".descriptor.debit": d.path + ".debit",
		".descriptor.detailed": d.path + ".detailed_metric", ".descriptor.metadata": d.path + ".metadata", ".shadow": d.path + ".shadow_mode",
		".limit": limitAt, ".limit.rate": limitAt + ".requests_per_unit", ".always": limitAt + ".requests_per_unit", ".unlimited": limitAt + ".unlimited",
	} {
		if to != ".descriptor.quota" || !r.Unlimited { // limited warns of the other case
			p.Alias(at+to, from)
		}
	}
	r.Candidate, r.Overrides, r.Allow, r.Deny, r.Cost, r.Floor = d.Candidate, d.Overrides, d.Allow, d.Deny, d.Cost, d.Floor
	r.Hybrid, r.Ban, r.WhenLimited, r.OnStoreError = d.Hybrid, d.Ban, d.WhenLimited, d.OnStoreError
	if len(d.Limits) == 0 {
		return
	}
	if r.Limit == nil {
		p.Follow(d.path+".limits", "are given, and the rate_limit beside them has no limit of its own", "remove them, or give the rate_limit a number above 0")
		return
	}
	p.Alias(at+".limits[0]", limitAt)
	p.Alias(at+".limits[0].rate", limitAt+".requests_per_unit")
	for i := range d.Limits {
		p.Alias(fmt.Sprintf("%s.limits[%d]", at, i+1), fmt.Sprintf("%s.limits[%d]", d.path, i))
	}
	r.Limits, r.Limit = append([]rules.Limit{*r.Limit}, d.Limits...), nil
}

// debits reports whether the hits of a descriptor are taken whatever is left, as the other server does, if the file
// does not select it. The settings of ours can select algorithms that cannot owe units. See docs/adr/0053.
func (p *part) debits(d level) bool {
	if d.Debit != nil {
		return *d.Debit
	}
	owesNone := func(l rules.Limit) bool { return l.Algorithm == "leaky_bucket" }
	return !p.options.AllOrNone && d.RateLimit.Algorithm != "leaky_bucket" && !slices.ContainsFunc(d.Limits, owesNone)
}

// longestName is the longest name of a rule without its hash.
const longestName = 80

// name returns the name of the rule of some levels: the domain, and keys and values. State is kept under it, so it
// depends on nothing else. A hash distinguishes names in which characters were replaced.
func (p *part) name(levels []level) string {
	parts, ambiguous := []string{p.domain}, false
	for _, l := range levels {
		text := l.Key
		if l.Value != "" {
			text += "_" + l.Value
		}
		parts = append(parts, text)
		ambiguous = ambiguous || strings.Contains(text, ".")
	}
	ambiguous = ambiguous || strings.Contains(p.domain, ".")
	plain := strings.Join(parts, ".")
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-', r == '.':
			return r
		}
		return '_'
	}, plain)
	if c := name[0]; c == '_' || c == '-' || c == '.' {
		name = "d" + name
	}
	if name == plain && !ambiguous && len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(p.identity(levels)))
	return name[:min(len(name), longestName)] + "-" + hex.EncodeToString(sum[:5])
}
