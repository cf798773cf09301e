package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/sluicehq/sluice/policy"
)

// Fallbacks are proxies to where rules send degraded requests, which is a URL as
// Options.Upstream is. It is safe for concurrent use.
type Fallbacks struct {
	o    Options
	sets atomic.Pointer[fallbackSets]
}

// fallbackSets are the proxies by their URLs as rules write them: the proxies of the latest policy,
// and of the policy before, which may have decided requests that are still on their way.
type fallbackSets struct{ latest, before map[string]*Proxy }

// NewFallbacks returns fallbacks that pass requests on as o says, whose Upstream is not used. They know
// no URL before Set.
func NewFallbacks(o Options) *Fallbacks {
	f := &Fallbacks{o: o}
	f.sets.Store(&fallbackSets{})
	return f
}

// Set makes proxies for all rules of a policy, which is to be put in force after that. If
// it fails, it changes nothing.
func (f *Fallbacks) Set(p *policy.Policy) error {
	old := f.sets.Load()
	latest := map[string]*Proxy{}
	var errs []error
	for _, r := range p.Rules() {
		target := r.WhenLimited.Upstream
		if target == "" || latest[target] != nil {
			continue
		}
		if known := old.latest[target]; known != nil {
			latest[target] = known
			continue
		}
		made, err := f.proxy(target)
		if err != nil {
			errs = append(errs, fmt.Errorf("proxy: rule %q: WhenLimited.Upstream: %w", r.Name, err))
			continue
		}
		latest[target] = made
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	f.sets.Store(&fallbackSets{latest: latest, before: old.latest})
	return nil
}

func (f *Fallbacks) proxy(target string) (*Proxy, error) {
	o := f.o
	var err error
	if o.Upstream, err = url.Parse(target); err != nil {
		return nil, err
	}
	return New(o)
}

// Handler returns the proxy to an upstream that a rule names, nil for one that no rule
// does. It is an httplimit.Options.Fallback.
func (f *Fallbacks) Handler(upstream string) http.Handler {
	sets := f.sets.Load()
	for _, set := range [...]map[string]*Proxy{sets.latest, sets.before} {
		if p := set[upstream]; p != nil {
			return p
		}
	}
	return nil
}
