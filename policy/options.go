package policy

import (
	"fmt"
	"net/netip"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/faults"
	"github.com/sluicehq/sluice/policy/internal/networks"
	"github.com/sluicehq/sluice/policy/internal/paths"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// checkNetworks checks a list of networks.
func (c *compiler) checkNetworks(field string, all []netip.Prefix) {
	for i, p := range all {
		if _, f := networks.Check(p); f != (faults.Fault{}) {
			c.report(fmt.Sprintf("%s[%d]", field, i), p.String(), fault(f))
		}
	}
}

// compiler checks the options of a policy, and collects their mistakes.
type compiler struct {
	options   Options
	index     int
	rule      string
	classes   map[string]int // their numbers
	plans     map[string]int // their numbers, from 1
	planFrom  *planSource    // of requests; nil for none
	planEntry *planSource    // of descriptors
	form      paths.Form
	single    bool // the rule needs no name, and its limits keep theirs
	earlier   map[sameLimit]*sluice.Limit
	pressures []pressureOf
	errs      []error
}

func (c *compiler) report(field, value string, f fault) {
	c.errs = append(c.errs, &RuleError{Index: c.index, Rule: c.rule, Field: field, Value: value, Problem: f.Problem, Remedy: f.Remedy})
}

// RuleError is one mistake in the options of a policy.
type RuleError struct {
	// Index is the index of the rule in Options.Rules, or -1 for the options themselves and for the rule of Single.
	Index int
	// Rule is the rule's name.
	Rule string
	// Field is the faulty field, such as "Match.Paths[1]".
	Field string
	// Value is the faulty value, if it is a text.
	Value string
	// Problem says what is wrong.
	Problem string
	// Remedy says what would be right. It may be empty.
	Remedy string
}

func (e *RuleError) Error() string {
	text := "policy: "
	if e.Index >= 0 {
		text += fmt.Sprintf("rule %q: ", e.Rule)
	}
	text += e.Field + " "
	if e.Value != "" {
		text += fmt.Sprintf("%q ", e.Value)
	}
	return text + faults.New(e.Problem, e.Remedy).String()
}

// fault is what is wrong with a value of the options. The zero fault means that nothing is wrong.
type fault faults.Fault

// is returns the fault of a number or time that is out of bounds.
func is(value any, remedy string) fault { return fault{fmt.Sprintf("is %v", value), remedy} }

// nameFault returns why a text is not a name.
func nameFault(name string) fault {
	switch {
	case name == "":
		return fault{"is missing", "give each rule a name of its own"}
	case len(name) > patterns.MaxName:
		return fault{fmt.Sprintf("is longer than %d letters", patterns.MaxName), "shorten it"}
	default:
		return fault{"is not a name", "use letters, digits, dots, dashes and underscores, and begin with a letter or digit"}
	}
}

// sameLimit identifies a limit: by the name under which its state is kept, and its numbers.
type sameLimit struct{ name, numbers string }

func identityOf(l *sluice.Limit) sameLimit { return sameLimit{l.Name(), numbersOf(l)} }

// numbersOf returns the algorithm of a limit with all numbers, hybrid terms included.
func numbersOf(l *sluice.Limit) string {
	text := l.Algorithm().String()
	if h := l.Hybrid(); h != nil {
		text += fmt.Sprintf(" hybrid%+v", *h)
	}
	return text
}

// pressureOf is a reference to a rule, which is checked when all rules are known.
type pressureOf struct {
	index       int
	rule, field string
	of          string
}
