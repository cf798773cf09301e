package policy

import (
	"errors"
	"strings"
	"testing"
)

// A host that HTTP cannot carry is an error, which does not repeat it.
func TestCheckHost(t *testing.T) {
	for _, host := range []string{
		"", "localhost", "api.example.com", "API.example.com.", "api.example.com:80", "api.example.com.:80", "api.example.com:", "a_b-c~d", "192.0.2.1:8080",
		"[::1]", "[2001:DB8::1]:65535", "[::ffff:192.0.2.1]", "xn--bcher-kva.example", strings.Repeat("a", 255),
	} {
		if err := CheckHost(host); err != nil {
			t.Errorf("host %q was refused: %v", host, err)
		}
	}
	for _, host := range []string{
		"api.example.com:80:80", "::", "::1", ":", ":80", ".", "..", ".a", "a..b", "a..", "a:80.", "a:-1", "a:65536", "a:000080", "a:8o", "a b", "a,b", "a;b", "a%2eb", "a/b",
		"a@b", "a\\b", "a\x00", "b\u00fccher.example", "[", "[]", "[::1", "::1]", "[::1]a", "[::1]:80:80", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[192.0.2.1]", "[a]",
		"a[::1]", "[v1.a]", strings.Repeat("a", 256), strings.Repeat("a.", 1<<20), strings.Repeat(":", 1<<20),
	} {
		err := CheckHost(host)
		var bad *AttributeError
		if !errors.As(err, &bad) || bad.Attribute != "host" || strings.Contains(err.Error(), host) && len(host) > 4 {
			t.Errorf("host %.60q: %v, want an error about the host that does not repeat it", host, err)
		}
	}
}

// A method that is not in capitals, or is too long, is an error.
func TestCheckMethod(t *testing.T) {
	for _, method := range []string{"GET", "POST", "M-SEARCH", "MADE_UP", "X1", "!"} {
		if err := CheckMethod(method); err != nil {
			t.Errorf("method %q was refused: %v", method, err)
		}
	}
	for _, method := range []string{"", "get", "Post", "OPTIONs", "made-up", "PO ST", "POST ", "GET /x", "P\u00d6ST", "A\x00", strings.Repeat("A", 65)} {
		err := CheckMethod(method)
		var bad *AttributeError
		if !errors.As(err, &bad) || bad.Attribute != "method" {
			t.Errorf("method %q: %v, want an error about the method", method, err)
		}
	}
}

// A path with an encoded control character is an error.
func TestCheckPath(t *testing.T) {
	for path, fails := range map[string]bool{"/a": false, "/%C3%A9%20": false, "/a%00": true, "/a%250A": true} {
		err := CheckPath(path)
		var bad *AttributeError
		if errors.As(err, &bad) != fails || fails && bad.Attribute != "path" {
			t.Errorf("path %q: %v, want an error: %v", path, err, fails)
		}
	}
}
