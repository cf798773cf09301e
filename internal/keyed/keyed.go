// Package keyed makes deciders by limits that hold for each key, as httplimit and grpclimit offer them.
package keyed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// Edge is what differs between edges, for their requests R.
type Edge[R comparable] struct {
	// Name is the name of the package, with which errors begin.
	Name string
	// RequestOf returns the request that attributes describe, or the zero R.
	RequestOf func(*policy.Attributes) R
	// Find returns the function that finds a part of a key in requests. It returns nil if the source of the part
	// needs none, and for parts that requests do not have. It may complete the part.
	Find func(p *policy.Part) func(R) (string, bool)
}

// Function returns a part that a function finds in a request.
func (e *Edge[R]) Function(name string, value func(R) (string, bool)) policy.Part {
	if value == nil {
		return policy.Function(name, nil) // which policy.Single refuses
	}
	return policy.Function(name, e.valueOf(value))
}

func (e *Edge[R]) valueOf(value func(R) (string, bool)) func(*policy.Attributes) (string, bool) {
	return func(a *policy.Attributes) (string, bool) {
		var none R
		if r := e.RequestOf(a); r != none {
			return value(r)
		}
		return "", false
	}
}

// Decider returns a decider by a policy of one rule. The functions cost and limits may be nil.
func (e *Edge[R]) Decider(store sluice.Store, rule policy.Rule, cost func(R) int64, limits func(R) []*sluice.Limit) (*policy.Decider, error) {
	if cost != nil {
		rule.Cost.Function = func(a *policy.Attributes) int64 { return cost(e.RequestOf(a)) }
	}
	if limits != nil {
		rule.LimitsFor = func(a *policy.Attributes) []*sluice.Limit {
			var none R
			if r := e.RequestOf(a); r != none {
				return limits(r)
			}
			return nil // for a key that is given by its values
		}
	}
	p, err := e.policy(store, rule)
	if err != nil {
		return nil, fmt.Errorf("%s: KeyOptions%w", e.Name, err)
	}
	return policy.NewDecider(p, store)
}

// read are the sources of parts that a policy itself finds in requests of any edge. It refuses the zero source.
var read = []policy.Source{0, source.Constant, policy.FromHeader, policy.FromCookie, policy.FromQuery, source.Function}

// policy returns the policy of one rule. Its errors continue the word KeyOptions.
func (e *Edge[R]) policy(store sluice.Store, rule policy.Rule) (*policy.Policy, error) {
	switch {
	case store == nil:
		return nil, errors.New(".Store is missing; give one such as memory.New makes")
	case len(rule.Limits) == 0 && rule.LimitsFor == nil:
		return nil, errors.New(".Limits is empty; give one limit or more, or LimitsFor")
	case len(rule.Key) == 0:
		return nil, errors.New(".Key is empty; give parts such as policy.ClientIP(), or policy.Global() for one budget shared by everybody")
	case rule.OnStoreError > sluice.FallbackDeny:
		return nil, fmt.Errorf(".OnStoreError is %d; give sluice.FallbackAllow or sluice.FallbackDeny", rule.OnStoreError)
	}
	rule.Key = slices.Clone(rule.Key)
	for i := range rule.Key {
		p := &rule.Key[i]
		if p.Value != nil {
			continue
		}
		value := e.Find(p)
		switch {
		case value != nil:
			p.Value = e.valueOf(value)
		case !slices.Contains(read, p.Source):
			return nil, fmt.Errorf(".Key[%d] %q is a part for rules; give a Function, or rules to NewPolicyDecider", i, p)
		}
	}
	p, err := policy.Single(rule)
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return p, nil
}
