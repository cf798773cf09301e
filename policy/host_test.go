package policy

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckHost(t *testing.T) {
	for _, host := range []string{
		"", "localhost", "api.example.com", "API.example.com.", "api.example.com:80", "api.example.com.:80", "api.example.com:", "a_b-c~d", "192.0.2.1:8080",
		"[::1]", "[2001:DB8::1]:65535", "[::ffff:192.0.2.1]", "xn--bcher-kva.example", strings.Repeat("a", maxHost),
	} {
		if err := CheckHost(host); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
	for _, host := range []string{
		"api.example.com:80:80", "::", "::1", ":", ":80", ".", "..", ".a", "a..b", "a..", "a:80.", "a:-1", "a:65536", "a:000080", "a:8o", "a b", "a,b", "a;b", "a%2eb", "a/b",
		"a@b", "a\\b", "a\x00", "b\u00fccher.example", "[", "[]", "[::1", "::1]", "[::1]a", "[::1]:80:80", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[192.0.2.1]", "[a]",
		"a[::1]", "[v1.a]", strings.Repeat("a", maxHost+1), strings.Repeat("a.", 1<<20), strings.Repeat(":", 1<<20),
	} {
		err := CheckHost(host)
		var bad *AttributeError
		if !errors.As(err, &bad) || bad.Attribute != "host" || strings.Contains(err.Error(), host) && len(host) > 4 {
			t.Errorf("%.60q: %v", host, err)
		}
	}
}

// The lookup of a host below which rules match takes no time that grows with its square.
func TestHostsBelow(t *testing.T) {
	rule := func(name string, hosts ...string) Rule {
		return Rule{Name: name, Match: Match{Hosts: hosts}, Always: true}
	}
	p, err := New(Options{Rules: []Rule{rule("short", "*.b"), rule("long", "*.some.longer.example"), rule("exact", "a.b")}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"b": 0, ".b": 0, "a.b": 2, "c.a.b": 1, "A.B.:80": 2, "some.longer.example": 0, "x.some.longer.example": 1, "y.x.some.longer.example": 1,
		strings.Repeat("a.", 1<<20) + "b": 1,
	} {
		a := Attributes{Host: CleanHost(host), Path: "/"}
		if found := p.index.find(&a, nil); len(found) != want {
			t.Errorf("%.40q has %d rules, want %d", host, len(found), want)
		}
	}
}

func TestCleanHost(t *testing.T) {
	for in, want := range map[string]string{
		"example.com":            "example.com",
		"Example.COM":            "example.com",
		"example.com:8080":       "example.com",
		"example.com.":           "example.com",
		"example.com.:80":        "example.com",
		"127.0.0.1:80":           "127.0.0.1",
		"[::1]:80":               "::1",
		"[::1]":                  "::1",
		"::1":                    "::1",
		"[0:0:0:0:0:0:0:1]":      "::1",
		"[2001:DB8::1]:443":      "2001:db8::1",
		"[::ffff:192.0.2.1]:443": "::ffff:192.0.2.1",
		"":                       "",
		":80":                    "",
		"a:b:c":                  "a:b:c",
	} {
		if got := CleanHost(in); got != want {
			t.Errorf("CleanHost(%q) = %q, want %q", in, got, want)
		}
	}
}
