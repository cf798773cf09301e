package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/sluicehq/sluice/policy"
)

// Fallbacks are the proxies to the upstreams to which rules send degraded requests. Each
// upstream is a URL, as Options.Upstream is. Fallbacks are safe for concurrent use.
type Fallbacks struct {
	o    Options
	sets atomic.Pointer[fallbackSets]
}

// fallbackSets are the proxies by their URLs, as rules write them. One set is of the latest policy.
// The other is of the policy before, which may have decided requests that are still on their way.
type fallbackSets struct{ latest, before map[string]*Proxy }

// NewFallbacks returns fallbacks whose proxies have the options o, except Upstream. There are no
// proxies before Set.
func NewFallbacks(o Options) *Fallbacks {
	f := &Fallbacks{o: o}
	f.sets.Store(&fallbackSets{})
	return f
}

// Set makes proxies for all rules of a policy. Call it before the policy is put in force. If it
// fails, it changes nothing.
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

// Handler returns the proxy to an upstream, nil if no rule names the upstream. It can be an
// httplimit.Options.Fallback.
func (f *Fallbacks) Handler(upstream string) http.Handler {
	sets := f.sets.Load()
	for _, set := range [...]map[string]*Proxy{sets.latest, sets.before} {
		if p := set[upstream]; p != nil {
			return p
		}
	}
	return nil
}
