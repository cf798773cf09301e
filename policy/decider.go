package policy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
)

// Decider decides by a policy over a store. All edges of a program share one, and SetPolicy
// replaces the policy for all of them. Its methods do what the methods of Policy do, over its store.
// Most callers want Decide. It is safe for concurrent use.
type Decider struct {
	store  sluice.Store
	policy atomic.Pointer[Policy]
}

// NewDecider returns a decider by a policy over a store. It returns an error if one of them is nil.
func NewDecider(p *Policy, store sluice.Store) (*Decider, error) {
	switch {
	case p == nil:
		return nil, errors.New("policy: NewDecider has no policy; give one that New or Single made")
	case store == nil:
		return nil, errors.New("policy: NewDecider has no store; give one such as memory.New makes")
	}
	d := &Decider{store: store}
	d.policy.Store(p)
	return d, nil
}

// Policy returns the policy in force.
func (d *Decider) Policy() *Policy { return d.policy.Load() }

// SetPolicy replaces the policy. Requests that are being decided keep the earlier one. Limits of the
// same name keep their state; see also Options.Earlier. It returns an error for a nil policy, and changes nothing.
func (d *Decider) SetPolicy(p *Policy) error {
	if p == nil {
		return errors.New("policy: SetPolicy has no policy; give one that New or Single made")
	}
	d.policy.Store(p)
	return nil
}

// Store returns the store, where charges are settled, canceled and released.
func (d *Decider) Store() sluice.Store { return d.store }

// Decide decides about a request; see Policy.Decide.
func (d *Decider) Decide(ctx context.Context, a *Attributes) Verdict {
	return d.policy.Load().Decide(ctx, d.store, a)
}

// Peek decides about a request and takes nothing; see Policy.Peek.
func (d *Decider) Peek(ctx context.Context, a *Attributes) Verdict {
	return d.Policy().Peek(ctx, d.store, a)
}

// DecideRule decides all limits of one rule; see Policy.DecideRule, which has the same errors.
func (d *Decider) DecideRule(ctx context.Context, q RuleRequest) (Verdict, error) {
	return d.Policy().DecideRule(ctx, d.store, q)
}

// Reset forgets what a key of a rule has used; see Policy.Reset, which has the same errors.
func (d *Decider) Reset(ctx context.Context, rule string, key ...string) error {
	return d.Policy().Reset(ctx, d.store, rule, key...)
}

// GiveBack gives units back to a key of a rule; see Policy.GiveBack, which has the same errors.
func (d *Decider) GiveBack(ctx context.Context, units int64, rule string, key ...string) error {
	return d.Policy().GiveBack(ctx, d.store, units, rule, key...)
}

// Ban bans a key of a rule by hand; see Policy.Ban, which has the same errors.
func (d *Decider) Ban(ctx context.Context, length time.Duration, rule string, key ...string) error {
	return d.Policy().Ban(ctx, d.store, length, rule, key...)
}

// LiftBan ends the bans of a key of a rule; see Policy.LiftBan, which has the same errors.
func (d *Decider) LiftBan(ctx context.Context, rule string, key ...string) (found bool, err error) {
	return d.Policy().LiftBan(ctx, d.store, rule, key...)
}

// ListBans returns a page of the bans in force; see Policy.ListBans, which has the same errors.
func (d *Decider) ListBans(ctx context.Context, q sluice.BanQuery) (bans []BannedKey, next string, err error) {
	return d.Policy().ListBans(ctx, d.store, q)
}

// DecideDescriptors decides about all descriptors of a call; see Policy.DecideDescriptors.
func (d *Decider) DecideDescriptors(ctx context.Context, domain string, q []descriptors.Request) DescriptorVerdict {
	return d.policy.Load().DecideDescriptors(ctx, d.store, domain, q)
}
