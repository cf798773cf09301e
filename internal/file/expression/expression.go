package expression

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/textproto"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// Expression is a condition on a request in the language of expr-lang, such as
//
//	method == "POST" and header("X-Plan") in ["free", "trial"] and not in_network("10.0.0.0/8")
//
// An expression can use:
//   - the values method, host, path, client_ip, class, marked and request_bytes; if the size is unknown, see MatchesCertainly
//   - header(name), cookie(name), query(name), claim(name) and attribute(name), which are "" for a missing value;
//     header("Host") is host
//   - in_network(network) for the client's address, and pressure(rule)
//   - number(text), which is 0 for a text that does not begin with a number
//   - the functions len, lower, upper, trim, trimPrefix, trimSuffix, hasPrefix, hasSuffix, indexOf, lastIndexOf, abs, min and max
//
// Names, networks and patterns must be texts in quotes, so that they are checked when the file is read.
//
// An expression changes nothing. It has no loops and no variables, so its time is proportional to its length and
// to the size of the request. It is safe for concurrent use. See docs/adr/0015.
type Expression struct {
	text     string
	program  *vm.Program
	networks map[string]netip.Prefix
	marks    bool
	rules    []string // the rules whose pressure it uses
	address  bool     // whether it uses the text of the client's address
	class    bool     // whether it uses the class
	size     bool     // whether it uses the size of the body
	reads    []source.Value
	runs     sync.Pool
}

var (
	_ condition.CertainMatcher[*policy.Attributes] = (*Expression)(nil)
	_ condition.ValueReader                        = (*Expression)(nil)
)

// The bounds of an expression.
const (
	maxExpression = 4096 // bytes
	maxNodes      = 500
	maxMemory     = 10_000 // values made while it runs
)

// Error is a mistake in an expression.
type Error struct {
	// Line and Column are the position in the expression, both from 1.
	Line, Column int
	// Problem says what is wrong. Suggestion says what would be right; it may be empty.
	Problem, Suggestion string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("policyfile: expression: %d:%d: %s", e.Line, e.Column, e.Problem)
	if e.Suggestion != "" {
		text += "; " + e.Suggestion
	}
	return text
}

// variables are the names that an expression can use.
type variables struct {
	Method       string `expr:"method"`
	Host         string `expr:"host"`
	Path         string `expr:"path"`
	ClientIP     string `expr:"client_ip"`
	Class        string `expr:"class"`
	Marked       bool   `expr:"marked"`
	RequestBytes int    `expr:"request_bytes"`

	Header    func(string) string  `expr:"header"`
	Cookie    func(string) string  `expr:"cookie"`
	Query     func(string) string  `expr:"query"`
	Claim     func(string) string  `expr:"claim"`
	Attribute func(string) string  `expr:"attribute"`
	InNetwork func(string) bool    `expr:"in_network"`
	Pressure  func(string) float64 `expr:"pressure"`
	Number    func(string) int     `expr:"number"`
}

// builtins are the functions of the language whose time is proportional to their arguments.
var builtins = []string{"len", "lower", "upper", "trim", "trimPrefix", "trimSuffix", "hasPrefix", "hasSuffix", "indexOf", "lastIndexOf", "abs", "min", "max"}

// Parse reads an expression. The error is an *Error.
func Parse(text string) (*Expression, error) {
	if len(text) > maxExpression {
		return nil, &Error{1, 1, fmt.Sprintf("has %d bytes; the most is %d", len(text), maxExpression), "split it over several conditions or rules"}
	}
	if strings.TrimSpace(text) == "" {
		return nil, &Error{1, 1, "is empty", `write one such as header("X-Plan") == "free"`}
	}
	e := &Expression{text: text, networks: map[string]netip.Prefix{}}
	check := &expressionCheck{Expression: e}
	options := []expr.Option{
		expr.Env(&variables{}), expr.AsBool(), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes), expr.Patch(check),
	}
	for _, name := range builtins {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := compileExpression(text, options)
	if err == nil && check.problem == nil {
		e.program = program
		e.runs.New = func() any { return newRun(e) }
		return e, nil
	}
	var bad *file.Error
	switch {
	case check.problem != nil: // more precise than the compiler's error
		return nil, check.problem
	case !errors.As(err, &bad):
		bad = &file.Error{Message: err.Error()}
	}
	problem, suggestion := explain(bad.Message)
	return nil, &Error{max(bad.Line, 1), bad.Column + 1, problem, suggestion}
}

// compileExpression compiles an expression. It turns a panic of the compiler into an error.
func compileExpression(text string, options []expr.Option) (p *vm.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("is none that can be compiled: %v", r)
		}
	}()
	return expr.Compile(text, options...)
}

var (
	unknownName = regexp.MustCompile(`^unknown name (\S+)`)
	// functionField is of header["X"] and header.X, and textMethod of path.startsWith("/").
	functionField = regexp.MustCompile(`^type func\(.*\) \S+ has no field (\S+)`)
	textMethod    = regexp.MustCompile(`^type string has no method (\S+)`)

	// textFunction is of startsWith(path, "/"), and mismatched of method > 5.
	textFunction = regexp.MustCompile(`^unexpected token Operator\("(startsWith|endsWith|contains|matches)"\)`)
	mismatched   = regexp.MustCompile(`^invalid operation: (\S+) \(mismatched types (string|int|float64) and (string|int|float64)\)`)

	notBool = regexp.MustCompile(`^expected bool, but got (\S+)`)
)

// explain turns a message of the compiler into a problem and a suggestion.
func explain(message string) (problem, suggestion string) {
	message, _, _ = strings.Cut(message, "\n")
	if m := unknownName.FindStringSubmatch(message); m != nil {
		var known []string
		for i, all := 0, reflect.TypeFor[variables](); i < all.NumField(); i++ {
			known = append(known, all.Field(i).Tag.Get("expr"))
		}
		if m[1] == "request" {
			return reader.Quote(m[1]) + " is unknown", `write what it has by itself, as in path, method, host or header("X-User")`
		}
		if near := reader.Nearest(m[1], append(known, builtins...)); near != "" {
			suggestion = fmt.Sprintf("did you mean %q?", near)
		} else {
			suggestion = fmt.Sprintf("put quotes around a text, as in %q, or use one of %s", m[1], strings.Join(known, ", "))
		}
		return reader.Quote(m[1]) + " is unknown", suggestion
	}
	if m := functionField.FindStringSubmatch(message); m != nil {
		return "a function is called with (), and has no field " + reader.Quote(m[1]), fmt.Sprintf("write it as in header(%q)", m[1])
	}
	if m := textMethod.FindStringSubmatch(message); m != nil {
		return "a text has no method " + reader.Quote(m[1]), `write the operator between two texts, as in path startsWith "/api"`
	}
	if strings.Contains(message, `unexpected token Operator("=")`) {
		return `"=" does not compare`, "write == to compare two values, or matches for a regular expression"
	}
	if m := textFunction.FindStringSubmatch(message); m != nil {
		return m[1] + " is an operator between two texts", fmt.Sprintf("write it as in path %s \"/api\"", m[1])
	}
	if m := mismatched.FindStringSubmatch(message); len(m) > 3 && m[2] != m[3] && (m[2] == "string" || m[3] == "string") {
		return m[1] + " compares a text with a number", `put quotes around the number, or write a text as a number, as in number(header("X-Size")) > 5`
	}
	if message == "unexpected token EOF" {
		return "the condition ends too early", "complete it, and close each ( with ) and each [ with ]"
	}
	if m := notBool.FindStringSubmatch(message); m != nil {
		return "it is a " + m[1] + ", and a condition is true or false", `compare it, as in path startsWith "/api"`
	}
	return reader.Shorten(message), ""
}

// expressionCheck looks at each node of an expression.
type expressionCheck struct {
	*Expression
	problem *Error // the first mistake
}

// Visit checks a node, and makes names of headers canonical.
func (c *expressionCheck) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		switch n.Value {
		case "$env":
			c.report(n, "$env cannot be used in a condition", "name the value to use")
		case "marked":
			c.marks = true
		case "client_ip":
			c.address = true
		case "class":
			c.class = true
		case "request_bytes":
			c.size = true
		}
	case *ast.BuiltinNode:
		switch {
		case !slices.Contains(builtins, n.Name):
			c.report(n, fmt.Sprintf("a condition has no %s", n.Name), "it has "+strings.Join(builtins, ", "))
		case n.Name == "trim" && len(n.Arguments) == 2: // its time is the product of both lengths
			if _, ok := n.Arguments[1].(*ast.StringNode); !ok {
				c.report(n.Arguments[1], "the second argument of trim is not a text in quotes", "write out what to trim")
			}
		}
	case *ast.PredicateNode, *ast.PointerNode:
		c.report(n, "a condition has no loops", "write one for each value, or give a list to in")
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		c.report(n, "a condition has no variables", "write the value where it is used")
	case *ast.BinaryNode:
		switch n.Operator {
		case "..":
			c.report(n, "a condition has no ranges", "compare with >= and <=")
		case "matches":
			if _, ok := n.Right.(*ast.StringNode); !ok {
				c.report(n.Right, "the pattern after matches is not a text in quotes", "write the pattern out")
			}
		case "==", "!=", "in":
			c.methods(n.Left, n.Right)
			c.methods(n.Right, n.Left)
			c.hosts(n.Left, n.Right)
			c.hosts(n.Right, n.Left)
		}
	case *ast.CallNode:
		c.call(n)
	}
}

// methods checks the methods with which an expression compares the method of a request.
func (c *expressionCheck) methods(method, with ast.Node) {
	if name, ok := method.(*ast.IdentifierNode); !ok || name.Value != "method" {
		return
	}
	nodes := []ast.Node{with}
	if list, ok := with.(*ast.ArrayNode); ok {
		nodes = list.Nodes
	}
	for _, n := range nodes {
		text, ok := n.(*ast.StringNode)
		if !ok {
			continue
		}
		if meant := MethodMeant(text.Value); meant != "" {
			c.report(n, reader.Quote(text.Value)+" is not a method that clients use", fmt.Sprintf("did you mean %q?", meant))
		}
	}
}

// hosts checks the hosts with which an expression compares the host of a request.
func (c *expressionCheck) hosts(host, with ast.Node) {
	switch n := host.(type) {
	case *ast.IdentifierNode:
		if n.Value != "host" {
			return
		}
	case *ast.CallNode:
		callee, _ := n.Callee.(*ast.IdentifierNode)
		if callee == nil || callee.Value != "header" || len(n.Arguments) != 1 {
			return
		}
		if name, ok := n.Arguments[0].(*ast.StringNode); !ok || !strings.EqualFold(name.Value, "Host") {
			return
		}
	default:
		return
	}
	nodes := []ast.Node{with}
	if list, ok := with.(*ast.ArrayNode); ok {
		nodes = list.Nodes
	}
	for _, n := range nodes {
		if text, ok := n.(*ast.StringNode); ok && spelling.Host(text.Value) != text.Value {
			c.report(n, reader.Quote(text.Value)+" is not a host as rules see it: in lower case, without a port and a dot at its end", fmt.Sprintf("write %q", spelling.Host(text.Value)))
		}
	}
}

// call checks a call of one of the functions.
func (c *expressionCheck) call(n *ast.CallNode) {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok || len(n.Arguments) != 1 || callee.Value == "number" {
		return // the compiler reports it
	}
	f, known := reflect.TypeFor[variables]().FieldByNameFunc(func(name string) bool {
		f, _ := reflect.TypeFor[variables]().FieldByName(name)
		return f.Type.Kind() == reflect.Func && f.Tag.Get("expr") == callee.Value
	})
	if !known {
		return
	}
	arg, ok := n.Arguments[0].(*ast.StringNode)
	if !ok {
		c.report(n.Arguments[0], fmt.Sprintf("the argument of %s is not a text in quotes", callee.Value), "write it out")
		return
	}
	switch f.Name {
	case "Header":
		arg.Value = textproto.CanonicalMIMEHeaderKey(arg.Value)
		c.read(policy.FromHeader, arg.Value)
	case "Cookie":
		c.read(policy.FromCookie, arg.Value)
	case "Query":
		c.read(policy.FromQuery, arg.Value)
	case "Claim":
		c.read(policy.FromClaim, arg.Value)
	case "InNetwork":
		p, problem, suggestion := reader.ParsePrefix(arg.Value)
		if problem != "" {
			c.report(arg, reader.Quote(arg.Value)+" "+problem, suggestion)
		}
		c.networks[arg.Value] = p
	case "Pressure":
		if !slices.Contains(c.rules, arg.Value) {
			c.rules = append(c.rules, arg.Value)
		}
	}
	if arg.Value == "" {
		c.report(arg, fmt.Sprintf("the argument of %s is empty", callee.Value), "name the value to use")
	}
}

// read records a value that the expression reads.
func (c *expressionCheck) read(s policy.Source, name string) {
	if v := (source.Value{Source: s, Name: name}); !slices.Contains(c.reads, v) {
		c.reads = append(c.reads, v)
	}
}

func (c *expressionCheck) report(n ast.Node, problem, suggestion string) {
	if c.problem != nil {
		return
	}
	c.problem = &Error{1, 1, problem, suggestion}
	from := n.Location().From
	for _, r := range c.text {
		if from--; from < 0 {
			break
		}
		if c.problem.Column++; r == '\n' {
			c.problem.Line, c.problem.Column = c.problem.Line+1, 1
		}
	}
}

// String returns the text of the expression.
func (e *Expression) String() string { return e.text }

// Uses implements condition.StateMatcher: it returns what the expression uses besides attributes.
func (e *Expression) Uses() (marks bool, pressures []string) { return e.marks, e.rules }

// Reads implements condition.ValueReader: it returns the values that the expression reads.
func (e *Expression) Reads() []source.Value { return e.reads }

// Matches reports whether a request without a class and pressure fulfills the
// condition; see MatchesState.
func (e *Expression) Matches(a *policy.Attributes) bool {
	return e.MatchesState(a, condition.State{Marked: a.Marked})
}

// UsesSize reports whether the condition uses the size of the body.
func (e *Expression) UsesSize() bool { return e.size }

// MatchesState reports whether a request fulfills the condition, or may fulfill it: see MatchesCertainly.
func (e *Expression) MatchesState(a *policy.Attributes, s condition.State) bool {
	matches, certain := e.MatchesCertainly(a, s)
	return matches || !certain
}

// MatchesCertainly reports whether a request fulfills the condition by the first of several values. certain is false if
// the condition used a value of which the request has several, or in which services read different values, or if it
// depends on the unknown size of the body. It is also false if the condition cannot be computed, as with a remainder of
// a division by zero: otherwise a client that causes the error would escape the rule.
func (e *Expression) MatchesCertainly(a *policy.Attributes, s condition.State) (matches, certain bool) {
	r := e.runs.Get().(*run) //nolint:forcetypeassert // the pool has nothing else
	defer func() {
		r.clear()
		e.runs.Put(r)
	}()
	r.attributes, r.pressure, r.unclear = a, s.Pressure, e.class && s.ClassUnclear
	v := &r.variables
	v.Method, v.Host, v.Path, v.Class, v.Marked, v.RequestBytes = a.Method, a.Host, a.Path, s.Class, s.Marked, int(min(a.RequestBytes, math.MaxInt))
	if e.address && a.ClientIP.IsValid() {
		v.ClientIP = a.ClientIP.WithZone("").String()
	}
	met, err := r.machine.Run(e.program, v)
	if err != nil {
		return false, false
	}
	if e.size && a.RequestBytes < 0 {
		v.RequestBytes = math.MaxInt // a body of unknown size may be small or large
		large, err := r.machine.Run(e.program, v)
		r.unclear = r.unclear || err != nil || large != met
	}
	return met == true, !r.unclear
}
