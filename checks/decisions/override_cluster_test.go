package decisions

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
)

// Overrides and units ahead are decided on a cluster as in memory. So are requests of two rules and a shared budget, whose limits and
// units ahead are in several slots: all are charged, or none is. By day, TestOverridesDecideAsInMemory plays the law, on one server.
func TestOverridesOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := adapters.Rueidis.Dial(t, adapters.ToCluster(cluster))
	if redistest.Times(t, 1) > 1 {
		t.Run("law", func(t *testing.T) { overrides(t, 1, client, true) })
	}
	n, paid := 0, 0
	t.Run("slots", rapid.MakeCheck(func(t *rapid.T) {
		n++
		paid += aheadInSlots(t, client, fmt.Sprint("slots-", n))
	}))
	if paid < n {
		t.Errorf("in %d schedules, allowances paid for %d requests", n, paid)
	}
}

// aheadInSlots decides random requests on a cluster and in memory, and returns how many an allowance paid for.
func aheadInSlots(t *rapid.T, client redisstore.Client, prefix string) (paid int) {
	now := time.Date(2030, time.January, 1, 12, 0, 0, 0, time.UTC)
	clock := func() int64 { return now.UnixMicro() } //nolint:gocritic // now changes
	local, err := memory.New(memory.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	remote, err := redisstore.New(redistest.WithClock(client, clock), redisstore.Options{Prefix: prefix, Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(name string, part policy.Part, a sluice.Algorithm) policy.Rule {
		return policy.Rule{Name: name, Key: []policy.Part{part}, Limits: []*sluice.Limit{sluice.MustLimit("", a)}, Ahead: &policy.Ahead{Units: 1000, For: time.Hour}}
	}
	all := rule("all", policy.Global(), sluice.FixedWindow{Rate: sluice.PerHour(60)})
	all.Ahead = nil
	table := policy.NewOverrideTable()
	p, err := policy.New(policy.Options{Overrides: table, Rules: []policy.Rule{
		rule("tenants", policy.Header("X-Tenant"), sluice.TokenBucket{Rate: sluice.PerMinute(2), Burst: 4}),
		rule("users", policy.Cookie("user"), sluice.SlidingLog{Rate: sluice.PerHour(6)}), all,
	}})
	if err != nil {
		t.Fatal(err)
	}
	given, tenants := map[string]*policy.Allowance{}, []both{"a", "b", "c"}
	for step := range rapid.IntRange(5, 40).Draw(t, "steps") {
		tenant := rapid.SampledFrom(tenants).Draw(t, "tenant")
		if step%5 == 0 {
			of := rapid.SampledFrom([]string{"tenants", "users"}).Draw(t, "rule")
			key := tenant.key(of)
			x := given[key]
			if x == nil {
				x = &policy.Allowance{ID: "id"}
				given[key] = x
			}
			x.Units, x.Until = x.Units+rapid.Int64Range(1, 5).Draw(t, "units"), now.Add(time.Hour)
			if err := table.Set(policy.AllowancesOf(of), sluice.StringKey(key), x.String(), x.Until); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "seconds")) * time.Second)
		a := policy.Attributes{Path: "/", Values: tenant, Cost: rapid.Int64Range(1, 3).Draw(t, "cost")}
		want, got := p.Decide(t.Context(), local, &a), p.Decide(t.Context(), remote, &a)
		if got.String() != want.String() || got.PaidAhead() != want.PaidAhead() || got.Err != nil {
			t.Fatalf("step %d: the cluster decides %s, %v; memory decides %s", step, got.String(), got.Err, want.String())
		}
		if got.PaidAhead() {
			paid++
		}
	}
	for _, of := range []string{"tenants", "users"} {
		for _, tenant := range tenants {
			_, want, _, err1 := p.Allowance(t.Context(), local, of, tenant.key(of))
			if _, got, _, err2 := p.Allowance(t.Context(), remote, of, tenant.key(of)); got != want || err1 != nil || err2 != nil {
				t.Fatalf("%s of %s: %d units are left ahead on the cluster, and %d in memory: %v, %v", tenant, of, got, want, err1, err2)
			}
		}
	}
	return paid
}

// both are the header and the cookie of a tenant, which are different keys.
type both string

func (b both) Header(name string) (string, bool) { return string(b), name == "X-Tenant" }
func (b both) Cookie(name string) (string, bool) { return "user-" + string(b), name == "user" }
func (both) Query(string) (string, bool)         { return "", false }

// key returns the key of a tenant for a rule.
func (b both) key(rule string) string {
	if rule == "users" {
		return "user-" + string(b)
	}
	return string(b)
}
