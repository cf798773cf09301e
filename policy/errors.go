package policy

import "fmt"

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
	return text + fault{e.Problem, e.Remedy}.String()
}

// fault is what is wrong with a value and what would be right. The zero fault means no fault.
type fault struct{ problem, remedy string }

// String returns both in one sentence.
func (f fault) String() string {
	if f.remedy == "" {
		return f.problem
	}
	return f.problem + "; " + f.remedy
}

// is returns the fault of a number or time that is out of bounds.
func is(value any, remedy string) fault { return fault{fmt.Sprintf("is %v", value), remedy} }

// RuleRequestError reports a RuleRequest that cannot be decided.
type RuleRequestError struct {
	// Rule is the name in the request.
	Rule string
	// Unknown says that there is no such rule. Otherwise the rule exists, and Problem says why it
	// cannot decide, such as a key that does not fit.
	Unknown bool
	// Problem says what is wrong.
	Problem string
}

func (e *RuleRequestError) Error() string {
	return fmt.Sprintf("policy: rule %q: %s", e.Rule, e.Problem)
}

// AttributeError reports a request with which services disagree about what it is for. Edges refuse
// it with status 400.
type AttributeError struct {
	// Attribute is what is wrong: "method" or "host".
	Attribute string
	// Problem says what is wrong with it.
	Problem string
	// Remedy says what would be right.
	Remedy string
}

func (e *AttributeError) Error() string {
	return "policy: the " + e.Attribute + " " + fault{e.Problem, e.Remedy}.String()
}
