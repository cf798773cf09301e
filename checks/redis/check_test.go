package redis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestCheckCallsEveryMaster: one master of a cluster evicts, and then the user may do too little
// there. The check names it, and no replica.
func TestCheckCallsEveryMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, redistest.ACL("user default off"))
	words := adapters.DocumentedUser(t, "sluice-cluster")
	for _, s := range cluster.Nodes {
		adapters.SetUser(t, s, "user", words)
	}
	for _, s := range cluster.Nodes[3:] { // replicas, which hold no limits of their own
		if _, err := s.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", "allkeys-random"); err != nil {
			t.Fatal(err)
		}
	}
	route := adapters.ToCluster(cluster).As("user")
	options := map[string]redisstore.Options{
		"plain":  {},
		"hashed": {Secret: []byte("0123456789abcdef")},
		"tenant": {Tenant: func(sluice.Key) string { return "one" }},
	}
	one := cluster.Nodes[1]
	config := func(policy string) {
		t.Helper()
		if _, err := one.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", policy); err != nil {
			t.Fatal(err)
		}
	}
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		for name, o := range options {
			before := scriptCalls(t, cluster)
			r, err := a.Open(t, route, o).Check(redistest.Within(t, redistest.Soon))
			if err != nil || len(r.Warnings) > 0 || strings.Contains(r.Server, ",") {
				t.Errorf("%s: for a cluster that is well it returns %+v, %v", name, r, err)
			}
			for i, n := range scriptCalls(t, cluster)[:3] {
				if n == before[i] {
					t.Errorf("%s: nothing was decided on master %d", name, i)
				}
			}
		}
		store := a.Open(t, route, redisstore.Options{})

		config("allkeys-lru")
		r, err := store.Check(redistest.Within(t, redistest.Soon))
		if err != nil || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "the master "+one.Addr()+": maxmemory-policy is allkeys-lru") {
			t.Errorf("for one that evicts it returns %q, %v", r.Warnings, err)
		}
		config("noeviction")

		adapters.SetUser(t, one, "user", slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "+zadd" }))
		_, err = store.Check(redistest.Within(t, redistest.Soon))
		wantMisfit(t, err, "the master "+one.Addr()+": the user lacks a permission")
		adapters.SetUser(t, one, "user", words)
	})
}

// TestCheckOfASilentMaster: one that does not answer holds up no other, and a cluster of which
// none answers is not a cluster.
func TestCheckOfASilentMaster(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		p := adapters.StartProxied(t)
		store := a.Open(t, p.Route, redisstore.Options{})
		if r, err := store.Check(redistest.Within(t, redistest.Soon)); err != nil || len(r.Warnings) > 0 {
			t.Fatalf("for a cluster that is well it returns %+v, %v", r, err)
		}
		one := p.Nodes[1]
		if err := p.Proxies[one].Hold(); err != nil {
			t.Fatal(err)
		}
		var r redisstore.Report
		err := redisstore.ErrNotSent
		for range 50 { // the client may call the silent one for the slots, and then has no owners
			began := time.Now()
			if r, err = store.Check(redistest.Within(t, time.Second+time.Second/2)); err == nil {
				t.Logf("it took %v", time.Since(began))
				break
			}
		}
		if err != nil || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "the master "+one.Addr()+": ") {
			t.Errorf("for one that is silent it returns %q, %v", r.Warnings, err)
		}
		for _, proxy := range p.Proxies {
			if err := proxy.Hold(); err != nil {
				t.Fatal(err)
			}
		}
		var misfit *redisstore.MisfitError
		if _, err := store.Check(redistest.Within(t, time.Second)); err == nil || errors.As(err, &misfit) {
			t.Errorf("for one where all are silent it returns %v", err)
		}
	})
}

// scriptCalls returns how many scripts each node has run.
func scriptCalls(t *testing.T, cluster *redistest.Cluster) []int64 {
	t.Helper()
	var all []int64
	for _, s := range cluster.Nodes {
		stats, err := s.CommandStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stats["evalsha"].Calls+stats["eval"].Calls)
	}
	return all
}
