package policy

import (
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// Class is a kind of traffic that rules can match, and reserve units for. A request has the first class
// that matches it, or no class.
type Class struct {
	// Name is unique in its policy: letters, digits, dots, dashes and underscores.
	Name string
	// Match selects the requests of the class. It must not match classes, and it matches only marks of
	// an earlier hop.
	Match Match
	// Bypass lets the class pass without any rule.
	Bypass bool
}

// class is a Class, ready to match.
type class struct {
	Class
	match *matcher
}

// compileClasses checks the classes.
func (c *compiler) compileClasses() (classes []class) {
	c.classes = make(map[string]int, len(c.options.Classes))
	for i := range c.options.Classes {
		k := c.options.Classes[i]
		at := fmt.Sprintf("Classes[%d].", i)
		if !patterns.IsName(k.Name) {
			c.report(at+"Name", k.Name, nameFault(k.Name))
		} else if _, taken := c.classes[k.Name]; taken {
			c.report(at+"Name", k.Name, fault{"is the name of another class too", "give each class its own"})
		}
		c.classes[k.Name] = i
		if len(k.Match.Classes) > 0 {
			c.report(at+"Match.Classes", "", fault{"cannot be a condition of a class itself", "match what distinguishes its requests, such as a path or a header"})
			k.Match.Classes = nil
		}
		classes = append(classes, class{Class: k, match: c.newMatcher(&k.Match, at+"Match.")})
	}
	return classes
}

// Reserve keeps the last units of each limit of a rule for some classes of traffic. For requests of
// other classes these units are the floor: a request is refused if fewer would remain. If several
// reserves keep units from a request, the largest holds. Suppose the last 20 % are for critical
// traffic, and the last 30 % for critical and paying traffic. Then paying traffic cannot take the last
// 20 %, and all other traffic cannot take the last 30 %.
type Reserve struct {
	// Share is a percentage of what each limit can hold, 1 to 99, rounded up to whole units.
	Share int
	// Units is a number of units, instead of a Share.
	Units int64
	// For are names of classes.
	For []string
}

// of returns how many units of a limit are kept.
func (v *Reserve) of(l *sluice.Limit) int64 {
	if v.Share == 0 {
		return v.Units
	}
	whole, rest := l.Capacity()/100, l.Capacity()%100
	return whole*int64(v.Share) + (rest*int64(v.Share)+99)/100
}

// reserved returns how many units of a limit a request of a class cannot take.
func (c *compiler) reserved(r *rule, l *sluice.Limit, class int) (most int64) {
	for i := range r.Reserved {
		v := &r.Reserved[i]
		if !slices.ContainsFunc(v.For, func(name string) bool { return class != noClass && name == c.options.Classes[class].Name }) {
			most = max(most, v.of(l))
		}
	}
	return most
}

// checkReserved checks the reserves of a rule.
func (c *compiler) checkReserved(r *rule) {
	for i := range r.Reserved {
		v := &r.Reserved[i]
		at := fmt.Sprintf("Reserved[%d]", i)
		switch {
		case v.Share != 0 && v.Units != 0:
			c.report(at+".Units", "", fault{"is given, and a share too", "give one of them"})
		case v.Units < 0 || v.Share == 0 && v.Units == 0:
			c.report(at+".Units", "", is(v.Units, "give a share, or 1 unit or more"))
		case v.Share < 0 || v.Share > 99:
			c.report(at+".Share", "", is(v.Share, "give 1 to 99 percent"))
			v.Share = 0
		}
		if len(v.For) == 0 {
			c.report(at+".For", "", fault{"is missing", "name the classes that the units are kept for"})
		}
		for j, name := range v.For {
			field := fmt.Sprintf("%s.For[%d]", at, j)
			if number, known := c.classes[name]; !known {
				c.report(field, name, fault{"is not a class of the policy", "give the name of one"})
			} else if c.options.Classes[number].Bypass {
				c.report(field, name, fault{"is a class that bypasses all rules", "leave it out"})
			}
		}
	}
}

// checkFloors checks that each limit has units beyond its floor and reserves, even for a request
// without a class.
func (c *compiler) checkFloors(r *rule, what string, limits []*sluice.Limit) {
	for _, l := range limits {
		switch reserved := c.reserved(r, l, noClass); {
		case r.Floor >= l.Capacity():
			c.report("Floor", "", fault{fmt.Sprintf("is %d, and %s holds %d, so no request would pass", r.Floor, what, l.Capacity()), "give less"})
		case reserved >= l.Capacity():
			c.report("Reserved", "", fault{
				fmt.Sprintf("keeps %d of %d units of %s, so no request of other classes would pass", reserved, l.Capacity(), what), "keep fewer, or deny them",
			})
		default:
			continue
		}
		return
	}
}

// variant is one way in which services may resolve the dots, empty segments and encoded slashes of a path. Most paths
// have one variant. See docs/adr/0018 and docs/adr/0023.
type variant struct {
	path string
	// merged is the path without empty segments. Rules find their patterns and keys there, because a hop may merge some
	// slashes. The exceptions and conditions of rules, and classes, match path.
	merged  string
	class   int  // of the request by this variant, or noClass
	matched bool // some rule matches this variant
	certain bool // some rule does whichever of several values a service reads
	unsure  bool // the class depends on which of several values a service reads
}

// classify finds the class of a request for each variant of its path. If all variants have the same
// class, the request has that class; otherwise it has no class, and no units are reserved for it.
// classify reports whether all variants bypass the rules.
func (p *Policy) classify(s *scratch) (bypass bool) {
	bypass = true
	for i := range s.variants {
		p.turn(s, i)
		class, unsure := p.classOf(&s.matching)
		s.variants[i].class, s.variants[i].unsure = class, unsure
		if i == 0 {
			s.class = class
		}
		if class != s.class {
			s.class = noClass
		}
		bypass = bypass && p.bypasses(class)
	}
	if bypass {
		s.class = s.variants[0].class
	}
	return bypass
}

// turn makes a variant of the path the current one.
func (p *Policy) turn(s *scratch, i int) {
	r := &s.variants[i]
	s.variant, s.matched, s.certain = i, r.matched, r.certain
	s.attributes.Path, s.matching.class, s.matching.name, s.matching.unsure = r.path, r.class, p.className(r.class), r.unsure
}

// noClass is the class number of a request without a class.
const noClass = -1

// classOf returns the number of a request's class. unsure means that the class depends on which of several
// values a service reads; the request has no class then.
func (p *Policy) classOf(m *matching) (class int, unsure bool) {
	for i := range p.classes {
		switch p.classes[i].match.matchesAll(m) {
		case yes:
			if unsure {
				return noClass, true
			}
			return i, false
		case maybe:
			unsure = true
		}
	}
	return noClass, unsure
}

// bypasses reports whether no rule applies to requests of a class, by its number.
func (p *Policy) bypasses(class int) bool { return class != noClass && p.classes[class].Bypass }

// className returns the name of a class by its number.
func (p *Policy) className(i int) string {
	if i < 0 {
		return ""
	}
	return p.classes[i].Name
}
