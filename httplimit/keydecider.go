package httplimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// KeyOptions are the settings of a KeyDecider.
type KeyOptions struct {
	// Store keeps the state of the limits. Required.
	Store sluice.Store
	// Limits are what each key may have: one limit or more, with different names. A
	// request passes if all let it, and is charged to all or to none. Required.
	Limits []*sluice.Limit
	// Key are the parts of the request that tell clients apart, such as PeerIP, or
	// a Header and the Method. Two requests have one key only if all parts are
	// equal. For one budget shared by everybody, give Constant. Required.
	Key []Part
	// Cost says how many units a request takes. Zero takes none and passes, unless
	// the key is banned or in debt; a negative cost is refused. Default: one unit.
	Cost func(r *http.Request) int64
	// MaxWait is the longest delay that is acceptable. Positive, it lets requests
	// wait for a token bucket too; sluice.NoWait refuses any delay. Default: what each limit
	// offers by itself, which is the queue of a leaky bucket or of a concurrency limit.
	MaxWait time.Duration
	// Ban refuses a key outright for a time after too many denials. Default: no ban.
	Ban *sluice.Ban
	// OnStoreError says what becomes of a request when the store cannot decide.
	// Default: FallbackAllow, since a limiter that fails should not take the
	// service with it. Use FallbackDeny for what must not run unlimited, such as
	// attempts to log in. A request that the store finds invalid is denied anyway.
	OnStoreError policy.Fallback
}

func (o *KeyOptions) check() error {
	switch {
	case o.Store == nil:
		return errors.New("httplimit: KeyOptions.Store is missing; give one such as memory.New makes")
	case len(o.Limits) == 0:
		return errors.New("httplimit: KeyOptions.Limits is empty; give one limit or more")
	case len(o.Key) == 0:
		return errors.New("httplimit: KeyOptions.Key is empty; give parts such as PeerIP, or Constant for one budget shared by everybody")
	case o.MaxWait < 0 && o.MaxWait != sluice.NoWait:
		return fmt.Errorf("httplimit: KeyOptions.MaxWait is %v; give a positive time, 0 or sluice.NoWait", o.MaxWait)
	case o.OnStoreError > policy.FallbackDeny:
		return fmt.Errorf("httplimit: KeyOptions.OnStoreError is %d; give policy.FallbackAllow or policy.FallbackDeny", o.OnStoreError)
	}
	names := make(map[string]bool)
	for i, l := range o.Limits {
		if l == nil {
			return fmt.Errorf("httplimit: KeyOptions.Limits[%d] is nil; give one that sluice.NewLimit made", i)
		}
		if names[l.Name()] {
			return fmt.Errorf("httplimit: KeyOptions.Limits names %q twice, which would count twice in one state; give each limit a name of its own", l.Name())
		}
		names[l.Name()] = true
		// The store would find it only when the first request comes.
		probe := sluice.Request{Limit: l, Cost: 1, Member: 1, Ban: o.Ban}
		if err := probe.Check(); err != nil {
			return fmt.Errorf("httplimit: KeyOptions: %w", err)
		}
	}
	for i := range o.Key {
		if err := o.Key[i].check(); err != nil {
			return fmt.Errorf("httplimit: KeyOptions.Key[%d]: %w", i, err)
		}
	}
	return nil
}

// KeyDecider decides by limits that hold for each key. It is safe for concurrent use.
type KeyDecider struct {
	o KeyOptions
	// requests are what is the same in all requests to each limit.
	requests []sluice.Request
	leases   bool
}

var _ Decider = (*KeyDecider)(nil)

// NewKeyDecider returns a decider for limits that hold for each key.
func NewKeyDecider(o KeyOptions) (*KeyDecider, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	d := &KeyDecider{o: o}
	for _, l := range o.Limits {
		d.requests = append(d.requests, sluice.Request{Limit: l, Cost: 1, MaxWait: o.MaxWait, Ban: o.Ban})
		d.leases = d.leases || l.IsConcurrency()
	}
	return d, nil
}

// Store returns the store of the options.
func (d *KeyDecider) Store() sluice.Store { return d.o.Store }

// Reserved returns nil: limits without rules tell the service behind nothing.
func (d *KeyDecider) Reserved(*http.Request) []string { return nil }

// Decide takes the cost of r from all limits, or from none.
func (d *KeyDecider) Decide(r *http.Request) policy.Verdict {
	key, missing, outcome := makeKey(d.o.Key, r)
	if outcome != keyMade {
		if outcome == keySkipped {
			return policy.Verdict{}
		}
		return policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonMissingKey, Missing: &policy.Part{Source: missing.source, Name: missing.name}}
	}
	cost := int64(1)
	if d.o.Cost != nil {
		cost = d.o.Cost(r)
	}
	if len(d.requests) == 1 {
		return d.decideOne(r, key, cost)
	}
	return d.decideAll(r, key, cost)
}

// ask returns the request to the limit of index i.
func (d *KeyDecider) ask(i int, key sluice.Key, cost int64) sluice.Request {
	q := d.requests[i]
	q.Key, q.Cost = key, cost
	if d.leases && q.Limit.IsConcurrency() {
		q.Member = 1 + rand.Uint64N(1<<64-1)
	}
	return q
}

// context returns the context of decisions about r. Those that grant leases end with its deadline, and not
// because the client leaves: it would keep its place for as long as a lease lives.
func (d *KeyDecider) context(r *http.Request) (context.Context, context.CancelFunc) {
	ctx := r.Context()
	if !d.leases || ctx.Done() == nil || ctx.Err() != nil {
		return ctx, func() {}
	}
	lasting := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(lasting, deadline)
	}
	return lasting, func() {}
}

// decideOne is what decideAll is, at less expense, for one limit.
func (d *KeyDecider) decideOne(r *http.Request, key sluice.Key, cost int64) policy.Verdict {
	q := d.ask(0, key, cost)
	var answer sluice.Decision
	err := q.Check()
	if err == nil {
		ctx, cancel := d.context(r)
		answer, err = d.o.Store.Decide(ctx, q)
		cancel()
	}
	met := &[1]policy.LimitResult{{Request: q, Decision: answer}}
	if err != nil {
		return d.failed(met[:], err)
	}
	v := policy.Verdict{Reason: answer.Reason, Tightest: answer, TightestLimit: q.Limit, Delay: answer.Delay, Results: met[:]}
	if !answer.Allowed {
		v.Action, v.Delay = policy.Deny, 0
	}
	return v
}

func (d *KeyDecider) decideAll(r *http.Request, key sluice.Key, cost int64) policy.Verdict {
	met := make([]policy.LimitResult, len(d.requests))
	requests := make([]sluice.Request, len(met))
	for i := range met {
		requests[i] = d.ask(i, key, cost)
		met[i].Request = requests[i]
	}
	out := make([]sluice.Decision, len(met))
	ctx, cancel := d.context(r)
	defer cancel()
	if err := d.o.Store.DecideAll(ctx, requests, out); err != nil {
		return d.failed(met, err)
	}
	for i := range met {
		met[i].Decision = out[i]
	}
	return fold(met)
}

// failed is the verdict when the store could not decide.
func (d *KeyDecider) failed(met []policy.LimitResult, err error) policy.Verdict {
	for i := range met {
		met[i].Decision = sluice.Decision{}
	}
	v := policy.Verdict{Reason: sluice.ReasonStoreError, Results: met, Err: err}
	// What asks for something impossible must not be a way round the limit.
	if invalid := (*sluice.RequestError)(nil); errors.As(err, &invalid) {
		v.Action, v.Reason = policy.Deny, sluice.ReasonNever
	} else if d.o.OnStoreError == policy.FallbackDeny {
		v.Action = policy.Deny
	}
	return v
}

// fold makes one verdict of the decisions about all limits, as package policy does.
func fold(met []policy.LimitResult) policy.Verdict {
	tightest, delay := 0, time.Duration(0)
	for i := range met {
		delay = max(delay, met[i].Decision.Delay)
		if i > 0 && tighter(&met[i].Decision, &met[tightest].Decision) {
			tightest = i
		}
	}
	t := &met[tightest]
	v := policy.Verdict{Reason: t.Decision.Reason, Tightest: t.Decision, TightestLimit: t.Request.Limit, Delay: delay, Results: met}
	if !t.Decision.Allowed {
		v.Deny(t.Decision.Reason, nil, t)
		for i := range met {
			met[i].Uncharged = met[i].Decision.Allowed
		}
	}
	return v
}

// tighter reports whether a binds its client more than b does: a denial wins, and
// of several the one with the longest wait; otherwise the fewest units remaining.
func tighter(a, b *sluice.Decision) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case a.Allowed && a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	case a.Allowed:
		return a.ResetAfter > b.ResetAfter
	case (a.Reason == sluice.ReasonNever) != (b.Reason == sluice.ReasonNever):
		return a.Reason == sluice.ReasonNever
	}
	return a.RetryAfter > b.RetryAfter
}
