package config

import (
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
)

// checkStore checks the settings of the store.
func (f *File) checkStore(s *reader.Source) {
	r := f.Store.Redis
	if r == nil {
		f.Store.Memory.Check(s, "store.memory")
		return
	}
	if s.Has("store.memory") {
		s.FollowKey("store.memory", "is given, and redis is too", "give one store; the fallback in memory is redis.local")
	}
	r.Check(s)
	r.Local.Check(s, f.usesLocal())
	f.checkTenant(s, r.Tenant)
}

// usesLocal reports whether a rule limits locally while the store is down.
func (f *File) usesLocal() bool {
	return slices.ContainsFunc(f.Rules, func(r rules.Rule) bool {
		return r.OnStoreError == sluice.FallbackLocal || r.OnStoreError == sluice.FallbackDefault && f.OnStoreError == sluice.FallbackLocal
	})
}

// checkTenant checks that the key of each rule has the part that selects the slot in a cluster.
func (f *File) checkTenant(s *reader.Source, tenant int) {
	for i := range f.Rules {
		n, at := len(f.Rules[i].Key), "key"
		if n == 0 && f.Rules[i].Descriptor != nil {
			n, at = f.Rules[i].Descriptor.KeyParts(), "descriptor"
		}
		if n > 0 && n < tenant && !s.Failed("store.redis.tenant") {
			s.Follow(fmt.Sprintf("rules[%d].%s", i, at), fmt.Sprintf("has %s, and store.redis.tenant is %d", reader.Count(n, "part"), tenant),
				"put the tenant into that part of every rule's key")
		}
	}
}
