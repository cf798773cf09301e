package policy

import "fmt"

// RuleError is one mistake in the options of a policy.
type RuleError struct {
	// Index is the place of the rule in Options.Rules, or -1 for the options themselves.
	Index int
	// Rule is the rule's name.
	Rule string
	// Field is what is wrong, such as "Match.Paths[1]".
	Field string
	// Value is the text at fault, if it is one.
	Value string
	// Problem says what is wrong and what would be right.
	Problem string
}

func (e *RuleError) Error() string {
	where := "policy: "
	if e.Index >= 0 {
		where += fmt.Sprintf("rule %q: ", e.Rule)
	}
	if e.Value != "" {
		return fmt.Sprintf("%s%s %q %s", where, e.Field, e.Value, e.Problem)
	}
	return fmt.Sprintf("%s%s %s", where, e.Field, e.Problem)
}

// RuleRequestError reports a question about a rule that has no answer.
type RuleRequestError struct {
	// Rule is the name that was asked for.
	Rule string
	// Unknown says that there is no such rule; otherwise the key does not fit it.
	Unknown bool
	// Problem says what is wrong.
	Problem string
}

func (e *RuleRequestError) Error() string {
	return fmt.Sprintf("policy: rule %q: %s", e.Rule, e.Problem)
}
