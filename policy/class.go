package policy

import "fmt"

// Class is a kind of traffic that rules can match, and keep a share for. A
// request is of the first class that matches it, or of none.
type Class struct {
	// Name is unique in its policy: letters, digits, dots, dashes and underscores.
	Name string
	// Match says which requests are of the class. It matches no classes, and knows
	// of marks only what an earlier hop said.
	Match Match
	// Bypass lets the class pass without meeting any rule.
	Bypass bool
}

// class is a Class, ready to match.
type class struct {
	Class
	match *matcher
}

// noClass is the number of the class of requests that are of none.
const noClass = -1

// compileClasses checks the classes.
func (c *compiler) compileClasses() (classes []class) {
	c.classes = make(map[string]int, len(c.options.Classes))
	for i := range c.options.Classes {
		k := c.options.Classes[i]
		at := fmt.Sprintf("Classes[%d].", i)
		if !isName(k.Name) {
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

// classOf returns the number of a request's class.
func (p *Policy) classOf(m *matching) int {
	for i := range p.classes {
		if p.classes[i].match.matchesAll(m) {
			return i
		}
	}
	return noClass
}

// bypasses reports whether requests of a class, by its number, meet no rule.
func (p *Policy) bypasses(class int) bool { return class != noClass && p.classes[class].Bypass }

// className returns the name of a class by its number.
func (p *Policy) className(i int) string {
	if i < 0 {
		return ""
	}
	return p.classes[i].Name
}
