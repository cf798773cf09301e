package threats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

func nothing(http.ResponseWriter, *http.Request) {}

func hourly(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(n)})}
}

// TestSpoofedAddressesBehindAProxy writes false addresses before the address that a trusted proxy adds. The client
// keeps its one budget, and takes nothing from the clients with those addresses.
func TestSpoofedAddressesBehindAProxy(t *testing.T) {
	rules := []policy.Rule{{Name: "client", Key: []policy.Part{policy.ClientIP()}, Limits: hourly(3)}}
	overBoth(t, policy.Options{Rules: rules}, nothing, func(s *service) {
		rng := rand.New(rand.NewPCG(5, 6))
		for i := range 40 {
			made := make([]string, 1+rng.IntN(4))
			for j := range made {
				made[j] = []string{"203.0.113.7", "127.0.0.1", "::1", "unknown", `"`, "10.0.0.1:80", ""}[rng.IntN(7)]
			}
			lines := []string{"X-Forwarded-For: " + strings.Join(made, ", ") + ", 198.51.100.1", "X-Real-IP: 203.0.113.7", "Forwarded: for=203.0.113.7"}
			if i%2 == 0 {
				lines = append([]string{"X-Forwarded-For: " + strings.Join(made, ",")}, "X-Forwarded-For: 198.51.100.1")
			}
			if got, ok := s.get("/", lines...), i < 3; (got == http.StatusOK) != ok {
				s.Fatalf("request %d, %q: %d", i, lines, got)
			}
		}
		if got := s.get("/", "X-Forwarded-For: 203.0.113.7"); got != http.StatusOK {
			s.Errorf("the victim gets %d", got)
		}
	})
}

// TestRotatedAddresses uses many addresses of a /64, and many spellings of an IPv4 address. Each set has
// one budget. Two IPv4 addresses have two.
func TestRotatedAddresses(t *testing.T) {
	rules := []policy.Rule{{Name: "client", Key: []policy.Part{policy.ClientIP()}, Limits: hourly(5)}}
	overBoth(t, policy.Options{Rules: rules}, nothing, func(s *service) {
		rng := rand.New(rand.NewPCG(7, 8))
		for i := range 60 {
			a := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 7, byte(rng.Uint32()), byte(rng.Uint32()), 12: byte(rng.Uint32()), 15: byte(i)})
			if got := s.get("/", "X-Forwarded-For: "+a.String()); (got == http.StatusOK) != (i < 5) {
				s.Fatalf("address %d, %v: %d", i, a, got)
			}
		}
		for i, text := range []string{
			"192.0.2.1", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:9", "::FFFF:C000:201", "0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1:4711", `"192.0.2.1"`, "::ffff:192.0.2.1%eth0",
		} {
			if got := s.get("/", "X-Forwarded-For: "+text); (got == http.StatusOK) != (i < 5) {
				s.Errorf("spelling %d, %s: %d", i, text, got)
			}
		}
		if got := s.get("/", "X-Forwarded-For: 192.0.2.2"); got != http.StatusOK {
			s.Errorf("another IPv4 address: %d", got)
		}
	})
}

// TestBanEvasionBySpelling checks that a banned key is banned in all its spellings.
func TestBanEvasionBySpelling(t *testing.T) {
	ban := &sluice.Ban{After: 1, For: time.Hour}
	rules := []policy.Rule{
		{Name: "v6", Match: policy.Match{Paths: []string{"/six"}}, Key: []policy.Part{policy.ClientIP()}, Limits: hourly(1), Ban: ban},
		{
			Name: "login", Match: policy.Match{Paths: []string{"/login"}}, Limits: hourly(1), Ban: ban,
			Key: []policy.Part{policy.ClientIP(), policy.Host(), policy.Path(), policy.Header("X-User")},
		},
	}
	overBoth(t, policy.Options{Rules: rules}, nothing, func(s *service) {
		lines := func(client, host, user string) []string {
			return []string{"X-Forwarded-For: " + client, "Host: " + host, user}
		}
		for i, want := range []int{200, 429} {
			if got := s.get("/login", lines("192.0.2.1", "shop.example", "X-User: eve")...); got != want {
				s.Fatalf("request %d: %d", i, got)
			}
			if got := s.get("/six", "X-Forwarded-For: 2001:db8::1"); got != want {
				s.Fatalf("request %d over IPv6: %d", i, got)
			}
		}
		for i, c := range []struct{ path, client, host, user string }{
			{"/login", "::ffff:192.0.2.1", "shop.example", "X-User: eve"},
			{"/login", "192.0.2.1:99", "SHOP.example:80", "X-User: eve"},
			{"/.//login", "192.0.2.1", "shop.example.", "x-user: eve"},
			{"/%6cogin/", "203.0.113.9, 192.0.2.1", "Shop.Example.:8443", "X-USER: eve"},
			{"/x/%2e%2e/login", "192.0.2.1, 127.0.0.1", "shop.example", "X-User: eve"},
			{"/login?x=1", "192.0.2.1", "shop.example", "X-User: \t eve "},
			{"/./login", `"[::ffff:c000:201]:1"`, "shop.example", "X-User: eve"},
		} {
			if got := s.get(c.path, lines(c.client, c.host, c.user)...); got != http.StatusTooManyRequests {
				s.Errorf("spelling %d, %+v: %d", i, c, got)
			}
		}
		for _, client := range []string{"2001:db8::2", "2001:DB8:0:0:ffff::1", "[2001:db8::3]:1", "2001:0db8::1", "2001:db8::9%x"} {
			if got := s.get("/six", "X-Forwarded-For: "+client); got != http.StatusTooManyRequests {
				s.Errorf("%s is in the banned prefix, but got %d", client, got)
			}
		}
		// Other users are not banned.
		if got := s.get("/login", lines("192.0.2.1", "shop.example", "X-User: adam")...); got != http.StatusOK {
			s.Errorf("another user: %d", got)
		}
	})
}

// TestCostsGiveNothingBack sends costs in headers of requests and responses. No cost gives units back, overflows, or
// counts as zero. A request that costs more than the capacity is refused, and changes nothing.
func TestCostsGiveNothingBack(t *testing.T) {
	rules := []policy.Rule{
		{Name: "header", Match: policy.Match{Paths: []string{"/in"}}, Key: []policy.Part{policy.Global()}, Limits: hourly(100), Cost: policy.Cost{Header: "X-Cost", Units: 2}},
		{Name: "capped", Match: policy.Match{Paths: []string{"/capped"}}, Key: []policy.Part{policy.Global()}, Limits: hourly(100), Cost: policy.Cost{Header: "X-Cost", Units: 2, Max: 7}},
		{
			Name: "response", Match: policy.Match{Paths: []string{"/out"}}, Key: []policy.Part{policy.Global()}, Limits: hourly(1000),
			Cost: policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 3, Max: 20},
		},
	}
	overBoth(t, policy.Options{Rules: rules}, func(w http.ResponseWriter, r *http.Request) {
		if value := r.Header.Get("X-Reply"); value != "" {
			w.Header().Set("X-Tokens", value)
		}
	}, func(s *service) {
		left := func(path string) int64 {
			s.Helper()
			v := s.policy.Peek(s.Context(), s.store, &policy.Attributes{Path: path, Method: http.MethodGet})
			if v.Err != nil || len(v.Results) != 1 {
				s.Fatalf("the peek should have one limit: %+v", v)
			}
			return v.Results[0].Decision.Remaining
		}
		const huge = "9223372036854775807"
		for _, c := range []struct {
			path   string
			lines  []string
			status int
			cost   int64
		}{
			{"/in", []string{"X-Cost: 5"}, 200, 5},
			{"/in", []string{"X-Cost: -5"}, 200, 2},
			{"/in", []string{"X-Cost: 0"}, 200, 2},
			{"/in", []string{"X-Cost: -0"}, 200, 2},
			{"/in", []string{"X-Cost: 1e3"}, 200, 2},
			{"/in", []string{"X-Cost: 0x1"}, 200, 2},
			{"/in", []string{"X-Cost: 1_0"}, 200, 2},
			{"/in", []string{"X-Cost: NaN"}, 200, 2},
			{"/in", []string{"X-Cost: 18446744073709551617"}, 400, 0},
			{"/in", []string{"X-Cost: 9223372036854775808"}, 400, 0},
			{"/in", []string{"X_Cost: 1"}, 200, 2},
			{"/in", []string{"x-cost: 3"}, 200, 3},
			{"/in", []string{"X-Cost: 3", "X-Cost: 1"}, 200, 3}, // the highest
			{"/in", []string{"X-Cost: 1", "X-Cost: 3"}, 200, 3},
			{"/in", []string{"Connection: X-Cost", "X-Cost: 4"}, 200, 4},
			{"/in", []string{"X-Cost: " + huge}, 400, 0},
			{"/in", []string{"X-Cost: 9007199254740993"}, 400, 0},
			{"/in", []string{"X-Cost: 101"}, 400, 0},
			{"/capped", []string{"X-Cost: " + huge}, 200, 7},
			{"/capped", []string{"X-Cost: 9223372036854775808"}, 200, 7},
			{"/capped", []string{"X-Cost: -" + huge}, 200, 2},
			{"/out", []string{"X-Reply: 12"}, 200, 12},
			{"/out", []string{"X-Reply: -12"}, 200, 3},
			{"/out", []string{"X-Reply: " + huge}, 200, 20},
			{"/out", []string{"X-Reply: 9223372036854775808"}, 200, 20},
			{"/out", []string{"X-Tokens: 0", "X-Reply: 5"}, 200, 5}, // only the header of the response counts
		} {
			before := left(c.path)
			got := s.get(c.path, c.lines...)
			var used int64
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); { // it is settled soon after the response
				if used = before - left(c.path); used == c.cost {
					break
				}
			}
			if (got == http.StatusOK) != (c.status == http.StatusOK) || used != c.cost {
				s.Errorf("%s %.60q: %d, and costs %d; want %d and %d", c.path, c.lines, got, used, c.status, c.cost)
			}
		}
	})
	// Without a policy, both stores return an error for a negative cost and for one that is too large.
	overBoth(t, policy.Options{Rules: rules}, nothing, func(s *service) {
		l := sluice.NewLimiter(s.store, sluice.MustLimit("direct", sluice.TokenBucket{Rate: sluice.PerHour(10)}))
		for _, n := range []int64{-1, math.MinInt64, -1 << 53} {
			if _, err := l.AllowN(s.Context(), sluice.Key{}, n); err == nil {
				s.Errorf("a cost of %d is not an error", n)
			}
		}
		for _, n := range []int64{math.MaxInt64, 1 << 53, 11} {
			if d, err := l.AllowN(s.Context(), sluice.Key{}, n); err == nil && d.Allowed {
				s.Errorf("a cost of %d is allowed", n)
			}
		}
		if d, err := l.Peek(s.Context(), sluice.Key{}); err != nil || d.Remaining != 10 {
			s.Errorf("afterwards: %+v, %v", d, err)
		}
	})
}

// TestMissingKey sends requests without the key. The rule says whether they share one budget, are
// denied, or skip the rule. No request with a key shares their budget.
func TestMissingKey(t *testing.T) {
	user := policy.Header("X-User")
	at := func(path string) policy.Match { return policy.Match{Paths: []string{path}} }
	rules := []policy.Rule{
		{Name: "share", Match: at("/share"), Key: []policy.Part{user}, Limits: hourly(2)},
		{Name: "deny", Match: at("/deny"), Key: []policy.Part{user.IfMissing(policy.MissingDeny)}, Limits: hourly(2)},
		{Name: "skip", Match: at("/skip"), Key: []policy.Part{user.IfMissing(policy.MissingSkip)}, Limits: hourly(2)},
	}
	overBoth(t, policy.Options{Rules: rules}, nothing, func(s *service) {
		absent, empty := []string{}, []string{"X-User: "}
		for i, lines := range [][]string{absent, empty, absent, empty} {
			for path, ok := range map[string]bool{"/share": i < 2, "/deny": false, "/skip": true} {
				if got := s.get(path, lines...); (got == http.StatusOK) != ok {
					s.Errorf("request %d to %s without a key: %d", i, path, got)
				}
			}
		}
		for _, name := range []string{"missing", "+", "-", "(missing)", "global", "1", "0"} {
			if got := s.get("/share", "X-User: "+name); got != http.StatusOK {
				s.Errorf("user %q has the budget of requests without a user: %d", name, got)
			}
		}
	})
}

// TestPairsOfValuesDoNotCollide checks that pairs of values are different keys, even if their texts joined are
// equal.
func TestPairsOfValuesDoNotCollide(t *testing.T) {
	key := []policy.Part{policy.Header("X-A"), policy.Header("X-B")}
	overBoth(t, policy.Options{Rules: []policy.Rule{{Name: "pair", Key: key, Limits: hourly(1)}}}, nothing, func(s *service) {
		pieces := []string{"a", "b", "a:b", "b:c", "c", "a_b", "b_c", "a/b", "b/c", "{a}", "{a", "a}", "a}b", "1:a", "%3A", "a%3Ab", "+", "a|b", "*", "a*", "?", "[a]"}
		for _, a := range pieces {
			for _, b := range pieces {
				lines := []string{"X-A: " + a, "X-B: " + b}
				if first, second := s.get("/", lines...), s.get("/", lines...); first != http.StatusOK || second == http.StatusOK {
					s.Fatalf("%s: %d, then %d", fmt.Sprint(lines), first, second)
				}
			}
		}
	})
}
