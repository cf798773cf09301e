package spelling

import "testing"

// All spellings of a host are one.
func TestSpellingsOfAHostAreOne(t *testing.T) {
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
		if got := Host(in); got != want {
			t.Errorf("Host(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzHost checks that a clean host stays unchanged.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"Example.com:80", "[::1]:80", "a.:80.", "[a]:b:c", "::ffff:1.2.3.4", "[fe80::1%25eth0]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got := Host(in)
		if again := Host(got); again != got {
			t.Errorf("Host(%q) = %q, and cleaned again %q", in, got, again)
		}
	})
}
