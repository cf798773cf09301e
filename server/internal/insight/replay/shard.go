package replay

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"runtime"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// mostShards bounds the engines of a policy. Reading and counting take the other processors.
const mostShards = 4

// shards returns how many engines may decide by a policy at the same time, each about the clients of its own. It is 1 unless
// all rules count by the client's address, and no request waits, settles or depends on others.
func (r *run) shards(p *Policy, e *engine) int {
	const sharedPrefix = 32 // bits of IPv6 by which clients are divided
	switch {
	case r.o.Retry, r.o.Check, r.o.alone, e.pressure, !r.client.direct, p.IPv6Prefix < sharedPrefix:
		return 1
	}
	for _, rule := range e.policy.Rules() {
		address := func(part policy.Part) bool {
			return part.Source == policy.ClientIP().Source && (part.IPv6Prefix == 0 || part.IPv6Prefix >= sharedPrefix)
		}
		if !slices.ContainsFunc(rule.Key, address) && !rule.Always || settles(rule) || slices.ContainsFunc(rule.Limits, delays) || rule.MaxWait > 0 {
			return 1
		}
	}
	return min(mostShards, runtime.GOMAXPROCS(0))
}

// delays reports whether a limit can let requests wait.
func delays(l *sluice.Limit) bool {
	switch a := l.Algorithm().(type) {
	case sluice.LeakyBucket:
		return a.Queue > a.Undelayed
	case sluice.TokenBucket:
		return a.WarmUp > 0
	default:
		return l.IsConcurrency()
	}
}

// home returns a number that decides which engine has a client. Clients without an address, such as host names, share a key of
// rules, and so an engine.
func home(client string) uint64 {
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return 0
	}
	addr = addr.Unmap()
	whole := addr.As16()
	part := whole[:4]
	if addr.Is4() {
		part = whole[12:]
	}
	return maphash.Bytes(seed, part)
}

// absorb adds what another engine of the same policy has counted.
func (e *engine) absorb(o *engine) {
	for i := range e.rules {
		a, b := &e.rules[i], &o.rules[i]
		a.Requests, a.Limited, a.Delayed, a.Trial = a.Requests+b.Requests, a.Limited+b.Limited, a.Delayed+b.Delayed, a.Trial+b.Trial
		for why, n := range b.Reasons {
			a.Reasons[why] += n
		}
		maps.Copy(a.keys, b.keys)
		a.demand.absorb(&b.demand)
		a.limits.absorb(&b.limits)
	}
	e.overflow += o.store.Stats().Overflow
}
