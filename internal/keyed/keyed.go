// Package keyed makes deciders by limits that hold for each key, as httplimit and grpclimit offer them.
package keyed

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Options are the KeyOptions of an edge, for requests R and parts P. The fields are in the order of
// the edges' own types, which are converted to this one and describe the fields.
type Options[R, P any] struct {
	Store        sluice.Store
	Limits       []*sluice.Limit
	Key          []P
	Cost         func(R) int64
	MaxWait      time.Duration
	Ban          *sluice.Ban
	BanShared    bool
	OnStoreError policy.Fallback
}

// Decider returns a decider by a policy of one rule. Errors begin with the edge's name, and name makers of parts.
func (o Options[R, P]) Decider(edge, makers string, request func(*policy.Attributes) R, made func(P) (policy.Part, error)) (*policy.Decider, error) {
	p, err := o.policy(makers, request, made)
	if err != nil {
		return nil, fmt.Errorf("%s: KeyOptions%w", edge, err)
	}
	d, err := policy.NewDecider(p, o.Store)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", edge, err)
	}
	return d, nil
}

// policy returns the policy of one rule. Its errors continue the word KeyOptions.
func (o Options[R, P]) policy(makers string, request func(*policy.Attributes) R, made func(P) (policy.Part, error)) (*policy.Policy, error) {
	switch {
	case o.Store == nil:
		return nil, errors.New(".Store is missing; give one such as memory.New makes")
	case len(o.Limits) == 0:
		return nil, errors.New(".Limits is empty; give one limit or more")
	case len(o.Key) == 0:
		return nil, errors.New(".Key is empty; give parts such as PeerIP, or Constant for one budget shared by everybody")
	case o.OnStoreError > policy.FallbackDeny:
		return nil, fmt.Errorf(".OnStoreError is %d; give policy.FallbackAllow or policy.FallbackDeny", o.OnStoreError)
	}
	rule := policy.Rule{Limits: o.Limits, MaxWait: o.MaxWait, Ban: o.Ban, BanShared: o.BanShared, OnStoreError: o.OnStoreError}
	for i := range o.Key {
		part, err := made(o.Key[i])
		if part.Source == 0 && err == nil {
			err = fmt.Errorf("is the zero Part; make one with %s and so on", makers)
		}
		if err != nil {
			return nil, fmt.Errorf(".Key[%d]: %w", i, err)
		}
		rule.Key = append(rule.Key, part)
	}
	if o.Cost != nil {
		rule.Cost.Function = func(a *policy.Attributes) int64 { return o.Cost(request(a)) }
	}
	p, err := policy.Single(rule)
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return p, nil
}
