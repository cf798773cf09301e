package gate

import (
	"context"
	"errors"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/policy"
)

// Flows pace the bytes of requests that matched rules with a Bandwidth. There is one flow for each
// rule, key and direction. The state of the flows is in the store of the rules' limits. Flows is safe
// for concurrent use.
type Flows struct {
	store sluice.Store
	o     FlowOptions

	mu    sync.RWMutex
	known map[paced]limiters
}

// paced identifies the bandwidth of a rule. A rule that is loaded again with the same bandwidth
// keeps its flows.
type paced struct {
	rule      string
	bandwidth policy.Bandwidth
	deny      bool
}

type limiters struct{ down, up *bandwidth.Limiter }

// mostKnown bounds the rules with flows. At the bound, all flows are dropped, and made again when their
// rules match.
const mostKnown = 1 << 14

// FlowOptions are the settings of Flows. The zero FlowOptions are the defaults.
type FlowOptions struct {
	// OnError gets the store's errors, with the context of the read or write. An error ends it only if the rule's
	// OnStoreError is FallbackDeny; bytes of other rules pass. It must be safe for concurrent use. Default: errors are
	// ignored.
	OnError func(ctx context.Context, err error)
}

// NewFlows returns flows in a store, or an error if there is no store.
func NewFlows(store sluice.Store, o FlowOptions) (*Flows, error) {
	if store == nil {
		return nil, errors.New("gate: NewFlows has no store; give the store of the rules' limits")
	}
	if o.OnError == nil {
		o.OnError = func(context.Context, error) {}
	}
	return &Flows{store: store, o: o, known: make(map[paced]limiters)}, nil
}

// Of returns the flows for a verdict's request: down for the bytes that its client receives, and up for
// the bytes that it sends.
func (f *Flows) Of(ctx context.Context, v *policy.Verdict) (down, up []bandwidth.Flow) {
	for i := range v.Paced {
		p := &v.Paced[i]
		l := f.limiters(ctx, p.Rule)
		if l.down != nil {
			down = append(down, l.down.Flow(p.Key))
		}
		if l.up != nil {
			up = append(up, l.up.Flow(p.Key))
		}
	}
	return down, up
}

func (f *Flows) limiters(ctx context.Context, r *policy.Rule) limiters {
	id := paced{r.Name, *r.Bandwidth, r.OnStoreError == sluice.FallbackDeny}
	f.mu.RLock()
	l, ok := f.known[id]
	f.mu.RUnlock()
	if ok {
		return l
	}
	var errs [2]error
	l.down, errs[0] = f.limiter(id, "down", id.bandwidth.Down)
	l.up, errs[1] = f.limiter(id, "up", id.bandwidth.Up)
	if err := errors.Join(errs[:]...); err != nil {
		f.o.OnError(ctx, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= mostKnown {
		clear(f.known)
	}
	f.known[id] = l
	return l
}

// limiter returns the limiter of one direction, nil if its rate is zero.
func (f *Flows) limiter(id paced, direction string, rate sluice.Rate) (*bandwidth.Limiter, error) {
	if rate.IsZero() {
		return nil, nil
	}
	return bandwidth.NewLimiter(bandwidth.Options{
		Store: f.store, Rate: rate,
		Name: id.rule + "/bandwidth/" + direction,
		OnStoreError: func(ctx context.Context, err error) error {
			f.o.OnError(ctx, err)
			if id.deny {
				return err
			}
			return nil
		},
	})
}
