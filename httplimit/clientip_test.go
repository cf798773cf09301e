package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/policy"
)

// from returns a request of a peer, with header lines given as "Name: value".
func from(peer string, lines ...string) *http.Request {
	r := &http.Request{Method: http.MethodGet, RemoteAddr: peer, Header: make(http.Header)}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func proxies(tb testing.TB, texts ...string) []netip.Prefix {
	tb.Helper()
	p, err := httplimit.ParseProxies(texts...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func clientIP(tb testing.TB, o httplimit.ClientIPOptions) *httplimit.ClientIP {
	tb.Helper()
	c, err := httplimit.NewClientIP(o)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestClientIP(t *testing.T) {
	inside := proxies(t, "10.0.0.0/8", "fd00::/8")
	xff := httplimit.ClientIPOptions{TrustedProxies: inside}
	forwarded := httplimit.ClientIPOptions{TrustedProxies: inside, Header: "forwarded"}
	realIP := httplimit.ClientIPOptions{TrustedProxies: inside, Header: httplimit.XRealIP}
	unix := httplimit.ClientIPOptions{TrustUnix: true}
	networks := httplimit.ClientIPOptions{TrustedProxies: proxies(t, "0.0.0.0/0"), MaxHops: 1}
	for _, c := range []struct {
		name string
		o    httplimit.ClientIPOptions
		r    *http.Request
		want string // empty for none
	}{
		{"peer", httplimit.ClientIPOptions{}, from("192.0.2.1:80"), "192.0.2.1"},
		{"peer without port", httplimit.ClientIPOptions{}, from("192.0.2.1"), "192.0.2.1"},
		{"peer of IPv6", httplimit.ClientIPOptions{}, from("[2001:db8::1]:80"), "2001:db8::1"},
		{"peer with zone", httplimit.ClientIPOptions{}, from("[fe80::1%eth0]:80"), "fe80::1"},
		{"peer mapped", httplimit.ClientIPOptions{}, from("[::ffff:192.0.2.1]:80"), "192.0.2.1"},
		{"peer at a Unix socket", httplimit.ClientIPOptions{}, from("@"), ""},
		{"peer unknown", httplimit.ClientIPOptions{}, from(""), ""},
		{"no proxies, header", httplimit.ClientIPOptions{}, from("192.0.2.1:80", "X-Forwarded-For: 6.6.6.6"), "192.0.2.1"},
		{"peer not trusted", xff, from("192.0.2.1:80", "X-Forwarded-For: 6.6.6.6"), "192.0.2.1"},

		{"proxy's own request", xff, from("10.0.0.1:80"), "10.0.0.1"},
		{"one proxy", xff, from("10.0.0.1:80", "X-Forwarded-For: 192.0.2.1"), "192.0.2.1"},
		{"spoofed", xff, from("10.0.0.1:80", "X-Forwarded-For: 6.6.6.6, 192.0.2.1"), "192.0.2.1"},
		{"two proxies", xff, from("10.0.0.1:80", "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.2"), "192.0.2.1"},
		{"several lines", xff, from("10.0.0.1:80", "X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 10.0.0.2"), "192.0.2.1"},
		{"only proxies", xff, from("10.0.0.1:80", "X-Forwarded-For: 10.0.0.3, 10.0.0.2"), "10.0.0.3"},
		{"mapped proxy", xff, from("[::ffff:10.0.0.1]:80", "X-Forwarded-For: ::ffff:192.0.2.1"), "192.0.2.1"},
		{"port", xff, from("10.0.0.1:80", "X-Forwarded-For: 192.0.2.1:4711"), "192.0.2.1"},
		{"IPv6", xff, from("[fd00::1]:80", "X-Forwarded-For: 2001:db8::1"), "2001:db8::1"},
		{"IPv6 in brackets", xff, from("[fd00::1]:80", "X-Forwarded-For: [2001:db8::1]"), "2001:db8::1"},
		{"IPv6 with port", xff, from("[fd00::1]:80", "X-Forwarded-For: [2001:DB8::1]:4711"), "2001:db8::1"},
		{"IPv6 with zone", xff, from("[fd00::1]:80", "X-Forwarded-For: fe80::1%1"), "fe80::1"},
		{"quoted", xff, from("10.0.0.1:80", `X-Forwarded-For: "[2001:db8::1]:80"`), "2001:db8::1"},
		{"empty elements", xff, from("10.0.0.1:80", "X-Forwarded-For: 192.0.2.1, ,, "), "192.0.2.1"},
		{"empty line", xff, from("10.0.0.1:80", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: "), "192.0.2.1"},
		{"nothing but commas", xff, from("10.0.0.1:80", "X-Forwarded-For: , ,"), "10.0.0.1"},
		{"malformed element before", xff, from("10.0.0.1:80", "X-Forwarded-For: \"<script>, 192.0.2.1"), "192.0.2.1"},
		{"malformed", xff, from("10.0.0.1:80", "X-Forwarded-For: 192.0.2.1, unknown"), ""},
		{"leading zeros", xff, from("10.0.0.1:80", "X-Forwarded-For: 192.0.2.01"), ""},
		{"hex", xff, from("10.0.0.1:80", "X-Forwarded-For: 0xC0000201"), ""},
		{"bad port", xff, from("10.0.0.1:80", "X-Forwarded-For: 192.0.2.1:80x"), ""},
		{"other header", xff, from("10.0.0.1:80", "Forwarded: for=192.0.2.1", "X-Real-IP: 192.0.2.1"), "10.0.0.1"},
		{"underscores", xff, from("10.0.0.1:80", "X_Forwarded_For: 6.6.6.6"), "10.0.0.1"},

		{"forwarded", forwarded, from("10.0.0.1:80", "Forwarded: for=192.0.2.1;proto=https;by=10.0.0.1"), "192.0.2.1"},
		{"forwarded, any case", forwarded, from("10.0.0.1:80", "Forwarded: Proto=https; FOR=192.0.2.1"), "192.0.2.1"},
		{"forwarded, quoted", forwarded, from("10.0.0.1:80", `Forwarded: for="[2001:db8:cafe::17]:4711"`), "2001:db8:cafe::17"},
		{"forwarded, escaped", forwarded, from("10.0.0.1:80", `Forwarded: for="192\.0.2.1"`), "192.0.2.1"},
		{"forwarded, obfuscated port", forwarded, from("10.0.0.1:80", `Forwarded: for="192.0.2.1:_gazonk"`), "192.0.2.1"},
		{"forwarded, two", forwarded, from("10.0.0.1:80", `Forwarded: for=6.6.6.6, for=192.0.2.1;host="a,b;c", for="10.0.0.2"`), "192.0.2.1"},
		{"forwarded, lines", forwarded, from("10.0.0.1:80", "Forwarded: for=192.0.2.1", "Forwarded: for=10.0.0.2"), "192.0.2.1"},
		{"forwarded, open quote before", forwarded, from("10.0.0.1:80", `Forwarded: for="6.6.6.6, for=192.0.2.1;by="[fd00::1]"`), "192.0.2.1"},
		{"forwarded, quote pair around", forwarded, from("10.0.0.1:80", `Forwarded: for=6.6.6.6;x=", for=192.0.2.1`), "192.0.2.1"},
		{"forwarded, unknown", forwarded, from("10.0.0.1:80", "Forwarded: for=192.0.2.1, for=unknown"), ""},
		{"forwarded, obfuscated", forwarded, from("10.0.0.1:80", "Forwarded: for=_hidden"), ""},
		{"forwarded, no for", forwarded, from("10.0.0.1:80", "Forwarded: for=192.0.2.1, proto=https"), ""},
		{"forwarded, for twice", forwarded, from("10.0.0.1:80", "Forwarded: for=192.0.2.1;for=192.0.2.2"), ""},
		{"forwarded, malformed pair", forwarded, from("10.0.0.1:80", "Forwarded: for=192.0.2.1;secret"), ""},
		{"forwarded, not believed", forwarded, from("10.0.0.1:80", "X-Forwarded-For: 6.6.6.6"), "10.0.0.1"},

		{"real", realIP, from("10.0.0.1:80", "X-Real-IP: 192.0.2.1"), "192.0.2.1"},
		{"real, from anybody", realIP, from("192.0.2.9:80", "X-Real-IP: 192.0.2.1"), "192.0.2.9"},
		{"real, twice", realIP, from("10.0.0.1:80", "X-Real-IP: 6.6.6.6", "X-Real-IP: 192.0.2.1"), ""},
		{"real, list", realIP, from("10.0.0.1:80", "X-Real-IP: 6.6.6.6, 192.0.2.1"), ""},
		{"real, not set", realIP, from("10.0.0.1:80", "X-Forwarded-For: 6.6.6.6"), "10.0.0.1"},

		{"unix", unix, from("@", "X-Forwarded-For: 6.6.6.6, 192.0.2.1"), "192.0.2.1"},
		{"unix, no header", unix, from("@"), ""},
		{"unix, as nginx writes it", unix, from("unix:", "X-Forwarded-For: 192.0.2.1"), "192.0.2.1"},
		{"unix, a client's own path", unix, from("/tmp/a", "X-Forwarded-For: 192.0.2.1"), "192.0.2.1"},
		{"unix, without an address", unix, from("", "X-Forwarded-For: 192.0.2.1"), "192.0.2.1"},
		{"unix, the name of a host", unix, from("a.example:80", "X-Forwarded-For: 192.0.2.1"), ""},
		{"unix, a wrong number", unix, from("192.0.2.300", "X-Forwarded-For: 192.0.2.1"), ""},
		{"unix, in the list", unix, from("@", "X-Forwarded-For: 192.0.2.1, unix:"), ""},
		{"unix, not trusted", networks, from("@", "X-Forwarded-For: 192.0.2.1"), ""},
		{"unix, TCP peer", unix, from("192.0.2.9:80", "X-Forwarded-For: 6.6.6.6"), "192.0.2.9"},
	} {
		got, ok := clientIP(t, c.o).Addr(c.r)
		if text := strings.TrimPrefix(got.String(), "invalid IP"); text != c.want || ok != (c.want != "") {
			t.Errorf("%s: got %q, %v; want %q", c.name, text, ok, c.want)
		}
	}
}

func TestClientIPOptions(t *testing.T) {
	for _, c := range []struct {
		o    httplimit.ClientIPOptions
		want string
	}{
		{httplimit.ClientIPOptions{MaxHops: -1}, "MaxHops is -1"},
		{httplimit.ClientIPOptions{MaxHops: 65}, "MaxHops is 65"},
		{httplimit.ClientIPOptions{IPv6Prefix: 129}, "IPv6Prefix is 129"},
		{httplimit.ClientIPOptions{Header: "X-Real-IP:"}, "not the name of a header"},
		{httplimit.ClientIPOptions{TrustedProxies: make([]netip.Prefix, 1)}, "zero netip.Prefix"},
		{httplimit.ClientIPOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, "set MaxHops"},
	} {
		if _, err := httplimit.NewClientIP(c.o); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("%+v: got error %v; want one with %q", c.o, err, c.want)
		}
	}
}

// A range of mapped addresses that is shorter than the mapping once held all of IPv4.
func TestTrustedProxyRanges(t *testing.T) {
	for _, c := range []struct{ text, want, problem string }{
		{"10.0.0.0/8", "10.0.0.0/8", ""},
		{"192.0.2.1", "192.0.2.1/32", ""},
		{"2001:db8::/32", "2001:db8::/32", ""},
		{"::1", "::1/128", ""},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8", ""},
		{"::ffff:10.0.0.1", "10.0.0.1/32", ""},
		{"::ffff:10.0.0.0/8", "", "holds all IPv4 addresses"},
		{"::ffff:0:0/95", "", "holds all IPv4 addresses"},
		{"::/0", "::/0", ""},
		{"10.1.2.3/8", "", "write 10.0.0.0/8, or 10.1.2.3"},
		{"10.0.0.0/33", "", "not a range"},
		{"fe80::1%eth0", "", "not an address"},
		{"proxy.example.com", "", "not an address"},
		{"", "", "not an address"},
	} {
		got, err := httplimit.ParseProxies(c.text)
		switch {
		case c.problem != "":
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q: got error %v; want one with %q", c.text, err, c.problem)
			}
		case err != nil:
			t.Errorf("proxies %q were refused: %v", c.text, err)
		case got[0].String() != c.want:
			t.Errorf("%q: got %v; want %v", c.text, got[0], c.want)
		}
	}
	_, err := httplimit.ParseProxies("one", "10.0.0.0/8", "two")
	if err == nil || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("not all faults are reported: %v", err)
	}
}

// hop is one step of a chain: its text, and the address that the text means.
type hop struct {
	text string
	addr netip.Addr // invalid for a text that is not an address
}

// randomHop writes an address in one of the forms that proxies use.
func randomHop(rng *rand.Rand, forwarded bool) hop {
	var addr netip.Addr
	switch rng.IntN(6) {
	case 0, 1: // a proxy
		addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(4))})
	case 2:
		addr = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(rng.IntN(4))})
	case 3:
		addr = netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(4))})
	case 4:
		addr = netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: byte(rng.IntN(4))})
	default:
		junk := []string{"unknown", "_hidden", "1.2.3", "1.2.3.4.5", "256.1.1.1", "::1::", "x", `"`, "[", "-"}
		text := junk[rng.IntN(len(junk))]
		if forwarded {
			return hop{text: "for=" + text}
		}
		return hop{text: text}
	}
	text := addr.String()
	switch spelling := rng.IntN(4); {
	case addr.Is4() && spelling == 0:
		text = fmt.Sprintf("%s:%d", text, rng.IntN(65536))
	case addr.Is4() && spelling == 1:
		text = "::ffff:" + text
	case addr.Is6() && spelling == 0:
		text = "[" + text + "]"
	case addr.Is6() && spelling == 1:
		text = fmt.Sprintf("[%s]:%d", text, rng.IntN(65536))
	case addr.Is6() && spelling == 2:
		text = addr.StringExpanded()
	}
	if forwarded {
		text = `for="` + text + `"`
		if rng.IntN(3) == 0 {
			text += `;host="a, b;for=6.6.6.6"`
		}
		if rng.IntN(3) == 0 {
			text = "proto=https;" + text
		}
	}
	return hop{text, addr}
}

// rightmostUntrusted is the rule, applied to the parsed chain.
func rightmostUntrusted(peer netip.Addr, chain []hop, trusted func(netip.Addr) bool, hops int) netip.Addr {
	whole := append(append([]hop(nil), chain...), hop{addr: peer})
	at := len(whole) - 1
	for passed := 0; passed < hops && at > 0 && whole[at].addr.IsValid() && trusted(whole[at].addr); passed++ {
		at--
	}
	return whole[at].addr
}

func TestForwardedForSpoofing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	inside := proxies(t, "10.0.0.0/8", "fd00::/8")
	trusted := func(a netip.Addr) bool {
		return a.Is4() && a.As4()[0] == 10 || a.Is6() && a.As16()[0] == 0xfd
	}
	finders := make(map[[2]int]*httplimit.ClientIP)
	const chains, mostHops = 100_000, 6
	for i := range chains {
		forwarded := i%2 == 1
		header, kind := httplimit.XForwardedFor, 0
		if forwarded {
			header, kind = httplimit.Forwarded, 1
		}
		chain := make([]hop, rng.IntN(mostHops))
		r := &http.Request{Header: make(http.Header)}
		var line []string
		flush := func() {
			if len(line) > 0 {
				r.Header.Add(header, strings.Join(line, []string{",", ", ", " ,\t"}[rng.IntN(3)]))
				line = nil
			}
		}
		for j := range chain {
			chain[j] = randomHop(rng, forwarded)
			line = append(line, chain[j].text)
			if rng.IntN(3) == 0 {
				flush()
			}
		}
		flush()
		peer := randomHop(rng, false)
		for !peer.addr.IsValid() {
			peer = randomHop(rng, false)
		}
		r.RemoteAddr = netip.AddrPortFrom(peer.addr, 80).String()
		for hops := 1; hops <= mostHops; hops++ {
			c := finders[[2]int{kind, hops}]
			if c == nil {
				c = clientIP(t, httplimit.ClientIPOptions{TrustedProxies: inside, Header: header, MaxHops: hops})
				finders[[2]int{kind, hops}] = c
			}
			want := rightmostUntrusted(peer.addr, chain, trusted, hops)
			if got, _ := c.Addr(r); got != want {
				t.Fatalf("peer %v, %s %q, %d hops: got %v; want %v", peer.addr, header, r.Header[header], hops, got, want)
			}
		}
	}
}

// Clients can send lists of any length; only their end is read.
func TestForwardedForOfAnyLength(t *testing.T) {
	c := clientIP(t, httplimit.ClientIPOptions{TrustedProxies: proxies(t, "10.0.0.0/8")})
	for name, list := range map[string]string{
		"proxies": "6.6.6.6, " + strings.Repeat("10.0.0.1, ", 1<<20) + "10.0.0.1",
		"commas":  "6.6.6.6" + strings.Repeat(",", 1<<20),
		"spaces":  "6.6.6.6," + strings.Repeat(" ", 1<<20) + "x",
		"quotes":  strings.Repeat(`"`, 1<<20),
	} {
		r := from("10.0.0.1:80", "X-Forwarded-For: "+list)
		got, ok := c.Addr(r)
		if want := name == "proxies"; ok != want || want && got.String() != "10.0.0.1" {
			t.Errorf("%s: got %v, %v", name, got, ok)
		}
		if n := testing.AllocsPerRun(10, func() { c.Addr(r) }); n > 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestIPv6Rotation(t *testing.T) {
	part := policy.ClientIP().IfMissing(policy.MissingDeny)
	keys := make(map[string]bool)
	n := soak.Times(t, 1<<13)
	for i := range n {
		a := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 7, 8: byte(i), 10: byte(i >> 4), 15: byte(i >> 8)})
		keys[keyOf(t, part, from(netip.AddrPortFrom(a, uint16(i)).String()))] = true
	}
	if len(keys) != 1 || !keys["2001:db8:0:7::/64"] {
		t.Errorf("%d addresses of a /64 have %d keys", n, len(keys))
	}
	other := keyOf(t, part, from("[2001:db8:0:8::1]:80"))
	if keys[other] {
		t.Error("another /64 has the same key")
	}
	wide := clientIP(t, httplimit.ClientIPOptions{IPv6Prefix: 48})
	if a, b := keyBehind(t, wide, part, from("[2001:db8:0:7::1]:80")), keyBehind(t, wide, part, from("[2001:db8:0:8::1]:80")); a != b || a != "2001:db8::/48" {
		t.Errorf("a /48 has the keys %q and %q", a, b)
	}
	whole := clientIP(t, httplimit.ClientIPOptions{IPv6Prefix: 128})
	if got := keyBehind(t, whole, part, from("[2001:db8::1]:80")); got != "2001:db8::1" {
		t.Errorf("a whole address has the key %q", got)
	}
	part.IPv6Prefix = 56 // the part's own holds
	if got := keyBehind(t, wide, part, from("[2001:db8::1]:80")); got != "2001:db8::/56" {
		t.Errorf("with a prefix of its own, the part has the key %q", got)
	}
}

// All spellings of an address, and all addresses of a network of IPv6, are one key.
func TestAddressSpellings(t *testing.T) {
	part := policy.ClientIP().IfMissing(policy.MissingDeny)
	ip := clientIP(t, httplimit.ClientIPOptions{TrustedProxies: proxies(t, "10.0.0.1")})
	for want, spellings := range map[string][]string{
		"192.0.2.1": {"192.0.2.1", "192.0.2.1:1", "::ffff:192.0.2.1", "::FFFF:c000:201", "[::ffff:192.0.2.1]:80", "0:0:0:0:0:ffff:192.0.2.1", `"192.0.2.1"`},
		"2001:db8:1:2::/64": {
			"2001:db8:1:2::1", "2001:DB8:1:2::1", "[2001:db8:1:2::1]", "[2001:db8:1:2::1]:80", "2001:0db8:0001:0002:0000:0000:0000:0001",
			"2001:db8:1:2::1%eth0", "2001:db8:1:2:ffff::", `"[2001:db8:1:2::1]:80"`,
		},
	} {
		for _, s := range spellings {
			if got := keyBehind(t, ip, part, from("10.0.0.1:80", "X-Forwarded-For: "+s)); got != want {
				t.Errorf("%q has the key %q; want %q", s, got, want)
			}
		}
	}
	// Two IPv4 addresses have two keys, mapped or not.
	if a, b := keyBehind(t, ip, part, from("[::ffff:192.0.2.1]:80")), keyBehind(t, ip, part, from("[::ffff:192.0.2.2]:80")); a == b {
		t.Errorf("two IPv4 addresses have one key, %q", a)
	}
}

// Another protocol gets the address that net/http gets.
func TestOtherProtocolsGetTheSameAddress(t *testing.T) {
	c := clientIP(t, httplimit.ClientIPOptions{TrustedProxies: proxies(t, "10.0.0.0/8"), TrustUnix: true, IPv6Prefix: 56})
	for _, remote := range []string{"10.0.0.1", "192.0.2.1", "2001:db8::1", "::ffff:10.0.0.1", "fe80::1%eth0", ""} {
		for _, lines := range [][]string{nil, {"203.0.113.1"}, {"6.6.6.6", "203.0.113.1, 10.0.0.2"}, {"nonsense"}} {
			for _, c := range []*httplimit.ClientIP{c, nil} {
				r := &http.Request{RemoteAddr: remote, Header: http.Header{httplimit.XForwardedFor: lines}}
				peer, _ := netip.ParseAddr(remote)
				want, wantOK := c.Addr(r)
				got, ok := c.AddrOf(peer, func(header string) []string { return r.Header[header] })
				if got != want || ok != wantOK {
					t.Errorf("%s, %q: %v, %v; want %v, %v", remote, lines, got, ok, want, wantOK)
				}
			}
		}
	}
	if c.IPv6Prefix() != 56 || (*httplimit.ClientIP)(nil).IPv6Prefix() != 64 {
		t.Error("the prefix is wrong")
	}
}
