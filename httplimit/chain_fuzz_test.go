package httplimit_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
)

// addressIn parses an address that may have brackets, a port or a zone. It works
// differently from the code under test.
func addressIn(text string) netip.Addr {
	if strings.HasPrefix(text, "[") && strings.Count(text, "]") != 1 {
		return netip.Addr{} // netip accepts brackets in zones
	}
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil && (bare == text || a.Is6()) {
		return a.WithZone("").Unmap()
	}
	if p, err := netip.ParseAddrPort(text); err == nil {
		return p.Addr().WithZone("").Unmap()
	}
	return netip.Addr{}
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{
		"192.0.2.1", "192.0.2.1:80", "::1", "[::1]", "[::1]:80", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4, 10.0.0.1", ",,", `"1.2.3.4"`, "1.2.3.4:99999", "[1.2.3.4]", "[::1%]",
	} {
		f.Add(s, "10.0.0.1")
		f.Add("6.6.6.6", s)
	}
	c, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		r := &http.Request{RemoteAddr: "10.9.9.9:80", Header: http.Header{"X-Forwarded-For": {first, second}}}
		got, ok := c.Addr(r)
		if ok != got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("got %v, %v", got, ok)
		}
		if strings.ContainsAny(first+second, "\"_") || len(first)+len(second) > 120 || strings.Count(first+second, ",") > 10 {
			return // quotes, obfuscated ports and bounds are not in the oracle
		}
		want := netip.MustParseAddr("10.9.9.9")
		elements := strings.Split(first+","+second, ",")
		for i := len(elements) - 1; i >= 0; i-- {
			element := strings.Trim(elements[i], " \t")
			if element == "" {
				continue
			}
			want = addressIn(element)
			if !want.Is4() || want.As4()[0] != 10 {
				break
			}
		}
		if got != want {
			t.Fatalf("%q, %q: got %v; want %v", first, second, got, want)
		}
	})
}

// Only the element that a trusted proxy adds to Forwarded is read, whatever clients
// send before it.
func FuzzForwarded(f *testing.F) {
	f.Add(`for=6.6.6.6`, false)
	f.Add(`for="6.6.6.6`, true)
	f.Add(`for=6.6.6.6;x="`, false)
	f.Add(`"\`, true)
	f.Add(`\"`, false)
	c, err := httplimit.NewClientIP(httplimit.ClientIPOptions{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: httplimit.Forwarded,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sent string, ownLine bool) {
		for _, element := range []string{
			`for=192.0.2.1`, `for="192.0.2.1:80"`, `proto=https;for=192.0.2.1`, `for="192.0.2.1";host="a,b;\"c\\"`, `By="[2001:db8::1]:80"; For="[::ffff:192.0.2.1]"`,
		} {
			lines := []string{sent + ", " + element}
			if ownLine {
				lines = []string{sent, element}
			}
			r := &http.Request{RemoteAddr: "10.9.9.9:80", Header: http.Header{"Forwarded": lines}}
			if got, _ := c.Addr(r); got != netip.MustParseAddr("192.0.2.1") {
				t.Fatalf("%q: got %v", lines, got)
			}
		}
		// As the only element, it is an address or none, and no panic.
		r := &http.Request{RemoteAddr: "10.9.9.9:80", Header: http.Header{"Forwarded": {sent}}}
		if got, ok := c.Addr(r); ok != got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%q: got %v, %v", sent, got, ok)
		}
	})
}

// TestSpellingsOfIPv4 compares addresses with netip, digit by digit.
func TestSpellingsOfIPv4(t *testing.T) {
	fields := []string{"", "0", "00", "01", "1", "9", "10", "099", "199", "200", "249", "255", "256", "260", "300", "999", "1000", "+1", "-1", "1a", " 1", "٣"}
	c, err := httplimit.NewClientIP(httplimit.ClientIPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) netip.Addr {
		a, _ := c.Addr(&http.Request{RemoteAddr: text})
		return a
	}
	compare := func(text string) {
		want, err := netip.ParseAddr(text)
		if got := read(text + ":80"); got != want || got.IsValid() != (err == nil) {
			t.Errorf("%q is read as %v; want %v", text, got, want)
		}
	}
	for _, a := range fields {
		for _, b := range fields {
			for _, text := range []string{a + "." + b, a + ".2.3." + b, "1." + a + "." + b + ".4", "1.2.3." + a + "." + b, "1.2.3.4" + a + b} {
				compare(text)
			}
		}
	}
	for _, port := range []string{"", "0", "80", "00080", "65535", "65536", "99999999999999999999999", "+1", "-1", "8a", " 80", "_x", "_"} {
		text := "192.0.2.1:" + port
		_, err := netip.ParseAddrPort(text)
		if got := read(text).IsValid(); got != (err == nil || port == "_x") {
			t.Errorf("%q is an address and a port: %v; want %v", text, got, !got)
		}
	}
}
