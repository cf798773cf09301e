package policy_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/policy"
)

// FuzzNetworks compares sets of networks with net/netip, network by network.
func FuzzNetworks(f *testing.F) {
	for _, text := range []string{
		"10.0.0.0/8 10.1.0.0/16 11.0.0.0/8", "::/0", "0.0.0.0/0", "::ffff:10.0.0.0/104 ::ffff:0.0.0.0/95", "fe80::/10 fe80::1/128",
		"2001:db8::/32 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128", "255.255.255.255/32 0.0.0.0/32",
	} {
		for _, addr := range []string{"10.1.2.3", "::ffff:10.1.2.3", "fe80::1%eth0", "2001:db8::", "255.255.255.255", "::"} {
			f.Add(text, addr)
		}
	}
	f.Fuzz(func(t *testing.T, text, addr string) {
		a, err := netip.ParseAddr(addr)
		if err != nil {
			return
		}
		var networks []netip.Prefix
		want, wide := false, false
		for _, field := range strings.Fields(text) {
			n, err := netip.ParsePrefix(field)
			if err != nil {
				return
			}
			networks = append(networks, n)
			if n.Addr().Is4In6() {
				if n.Bits() < 96 {
					wide = true
					continue
				}
				n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
			}
			want = want || n.Contains(a.Unmap().WithZone(""))
		}
		if len(networks) == 0 {
			return
		}
		p, err := policy.New(policy.Options{Rules: []policy.Rule{{
			Name: "r", Match: policy.Match{ClientIPs: networks}, Key: []policy.Part{policy.Global()}, Limits: bucket(),
		}}})
		if (err != nil) != wide {
			t.Fatalf("%q: error %v, want one only if the sets are too wide: %v", text, err, wide)
		}
		if err != nil {
			if bad := (*policy.RuleError)(nil); !errors.As(err, &bad) || !strings.HasPrefix(bad.Field, "Match.ClientIPs[") {
				t.Fatalf("%q: error %v, want one that names the network", text, err)
			}
			return
		}
		if got := len(p.LimitsFor(&policy.Attributes{ClientIP: a})) == 1; got != want {
			t.Fatalf("%v in %q: %v", a, text, got)
		}
	})
}
