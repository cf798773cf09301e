package httplimit

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ParseProxies reads addresses ("192.0.2.1") and ranges ("10.0.0.0/8") of trusted
// proxies. All texts at fault are in the error.
func ParseProxies(texts ...string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	var errs []error
	for _, text := range texts {
		p, err := parseProxy(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, errors.Join(errs...)
}

func parseProxy(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("httplimit: trusted proxy %q is no address; write it as 192.0.2.1, 2001:db8::1 or 10.0.0.0/8", text)
		}
		return checkProxy(netip.PrefixFrom(a, a.BitLen()))
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("httplimit: trusted proxy %q is no range of addresses; write it as 10.0.0.0/8 or 2001:db8::/32", text)
	}
	return checkProxy(p)
}

// checkProxy returns the range without IPv4 addresses mapped to IPv6. A mapped
// range that is shorter than the mapping itself would be all of IPv4, and more.
func checkProxy(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, errors.New("httplimit: a trusted proxy is the zero netip.Prefix; read it with ParseProxies")
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("httplimit: trusted proxy %v holds all IPv4 addresses; write a range of IPv4 as 10.0.0.0/8", p)
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	if m := p.Masked(); m != p {
		return p, fmt.Errorf("httplimit: trusted proxy %v has bits set beyond its length; write %v, or %v for the one address", p, m, p.Addr())
	}
	return p, nil
}
