// Package faults describes what is wrong with a value of a policy or a request.
package faults

// Fault is what is wrong with a value and what would be right. The zero Fault means that nothing is wrong.
type Fault struct{ Problem, Remedy string }

// New returns a fault.
func New(problem, remedy string) Fault { return Fault{problem, remedy} }

// String returns both in one sentence.
func (f Fault) String() string {
	if f.Remedy == "" {
		return f.Problem
	}
	return f.Problem + "; " + f.Remedy
}
