package policy_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// manyRules returns n rules with literal paths and two rules more. A request to
// /svc7/v1/items matches one of the n, and the two.
func manyRules(n int) []policy.Rule {
	limit := func() []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000_000)})}
	}
	rules := []policy.Rule{
		{Name: "everyone", Key: []policy.Part{policy.ClientIP()}, Limits: limit()},
		{
			Name: "users", Match: policy.Match{Methods: []string{"GET", "POST"}, Paths: []string{"/**"}},
			Key: []policy.Part{policy.Header("X-User"), policy.ClientIP()}, Limits: limit(),
		},
	}
	for i := len(rules); i < n; i++ {
		rules = append(rules, policy.Rule{
			Name:   fmt.Sprintf("svc%d", i),
			Match:  policy.Match{Paths: []string{fmt.Sprintf("/svc%d/v1/*", i)}},
			Key:    []policy.Part{policy.Header("X-User"), policy.Path()},
			Limits: limit(),
		})
	}
	return rules
}

// BenchmarkDecide decides requests that match 3 rules of many. The allocations are
// the verdict's Results and the text of all keys.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{3, 1_000, 10_000} {
		for _, s := range []struct {
			name string
			open func() sluice.Store
		}{
			{"stub", func() sluice.Store { return &stub{} }},
			{"memory", func() sluice.Store { return mustMemory(b) }},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, s.name), func(b *testing.B) {
				p, err := policy.New(policy.Options{Rules: manyRules(n)})
				if err != nil {
					b.Fatal(err)
				}
				store, a := s.open(), manyAttributes(n)
				b.ReportAllocs()
				for b.Loop() {
					if v := p.Decide(b.Context(), store, a); len(v.Results) != 3 || !v.Allowed() {
						b.Fatalf("want three results that allow, got %s", v.String())
					}
				}
			})
		}
	}
}

func manyAttributes(n int) *policy.Attributes {
	return &policy.Attributes{
		Method: "GET", Host: "api.example.com", Path: fmt.Sprintf("/svc%d/v1/items", n-1),
		ClientIP: netip.MustParseAddr("203.0.113.7"), Values: values{header: map[string]string{"X-User": "alice"}},
	}
}

func mustMemory(tb testing.TB) sluice.Store {
	tb.Helper()
	s, err := memory.New(memory.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkDescriptors decides calls of one descriptor and of a hundred, in memory.
func BenchmarkDescriptors(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s, err := memory.New(memory.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			p, err := policy.New(policy.Options{Rules: []policy.Rule{described("user", 1_000_000_000, "user"), described("path", 1_000_000_000, "user", "path=/a*")}})
			if err != nil {
				b.Fatal(err)
			}
			d, err := policy.NewDecider(p, s)
			if err != nil {
				b.Fatal(err)
			}
			q := make([]descriptors.Request, n)
			for i := range q {
				q[i] = hits(1, "user=u"+strconv.Itoa(i), "path=/ab")
			}
			b.ReportAllocs()
			for b.Loop() {
				if v := d.DecideDescriptors(b.Context(), "d", q); !v.Allowed() {
					b.Fatalf("the call was denied: %s", v.String())
				}
			}
		})
	}
}
