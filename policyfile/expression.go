package policyfile

import "github.com/sluicehq/sluice/internal/file/expression"

// Expression is a condition on a request in the language of expr-lang, such as
//
//	method == "POST" and header("X-Plan") in ["free", "trial"] and not in_network("10.0.0.0/8")
//
// It can be one of the conditions of a policy.Match. It is safe for concurrent use. See docs/policies.md.
type Expression = expression.Expression

// ExpressionError says what is wrong with an expression: the Problem at a Line and a Column, both from 1, and the
// Suggestion, which may be empty.
type ExpressionError = expression.Error

// ParseExpression reads an expression. The error is an *ExpressionError.
func ParseExpression(text string) (*Expression, error) { return expression.Parse(text) }
