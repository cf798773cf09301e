package spelling

import (
	"strings"
	"testing"
)

// Credentials and cookies have one spelling in keys, conditions and lists.
func TestOneSpelling(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0"
	for _, c := range []struct {
		value, want string
		certain     bool
	}{
		{"Bearer T", "Bearer T", true},
		{"bearer  T", "Bearer T", true},
		{"BEARER\tT ", "Bearer T", true},
		{"Bearer T x", "Bearer T x", false},
		{"Bearer\xa0T", "Bearer\xa0T", false},
		{"Bearer T\u00a0", "Bearer T\u00a0", false},
		{"Bearer\x1f T", "Bearer\x1f T", false},
		{"Bearer T,x", "Bearer T,x", false},
		{"Bearer " + jwt + ".c2ln", "Bearer " + jwt + ".c2ln", true},
		{"Bearer " + jwt + ".c2lo", "Bearer " + jwt + ".c2lo", true},
		{"Bearer " + jwt + ".c2ln!", "Bearer " + jwt + ".c2ln", false},
		{"Bearer " + jwt + ".c2lnZg==", "Bearer " + jwt + ".c2lnZg", false},
		{"Bearer " + jwt + ".c2lnZh", "Bearer " + jwt + ".c2lnZg", false}, // other bits at the end of c2lnZg
		{"Bearer SG.abc.d!f", "Bearer SG.abc.d!f", true},
		{"Basic dXNlcjpwYXNz", "Basic dXNlcjpwYXNz", true},
		{"basic dXNl.cjpwYXNz", "Basic dXNl.cjpwYXNz", false},
		{"Basic " + strings.Repeat("dXNl", 400), "Basic " + strings.Repeat("dXNl", 400), true},
		{"Basic " + strings.Repeat("dXNl", 400) + "!", "Basic " + strings.Repeat("dXNl", 400) + "!", false},
		{"DIGEST  username=\"a\",  realm=b", "digest username=\"a\", realm=b", true},
		{"T", "T", true},
		{"bearer ", "Bearer", true},
		{"Bearer ", "Bearer", true},
		{"BEARER", "Bearer", true},
		{" bearer T", "Bearer T", true},
		{" T", "T", true},
		{"", "", true},
	} {
		if got, certain := Credentials(c.value); got != c.want || certain != c.certain {
			t.Errorf("Credentials(%q) = %q, %v", c.value, got, certain)
		}
		if again, _ := Credentials(c.want); again != c.want {
			t.Errorf("%q becomes %q", c.want, again)
		}
	}
	for _, c := range []struct {
		value, want string
		certain     bool
	}{
		{"abc", "abc", true},
		{`"abc"`, "abc", true},
		{" abc ", "abc", true},
		{"%61b%63", "abc", true},
		{"a%2fb%2Fc/d", "a/b/c/d", true},
		{"100%", "100%", true},
		{`"a\142c"`, `a\142c`, false},
		{`a"c`, `a"c`, false},
		{`"`, `"`, false},
		{"a b", "a b", false},
		{"a\tb", "a\tb", false},
		{"a,b", "a,b", false},
		{"a%20b%2Cc", "a b,c", true},
		{"\xa0abc", "\xa0abc", false},
		{"abcdefgh\x7f", "abcdefgh\x7f", false},
		{"", "", true},
	} {
		if got, certain := Cookie(c.value); got != c.want || certain != c.certain {
			t.Errorf("Cookie(%q) = %q, %v", c.value, got, certain)
		}
	}
}

// Parameters of other schemes stay as they are, and text behind a token does not.
func TestTextBehindTokens(t *testing.T) {
	const (
		session = "eyJ1c2VyIjoiYW5uIn0.ZyXwVu.Hk1mW2cH6DaXzQ7s5bT9uRfE3yA" // as Flask writes it
		signer  = "ann.Hk1mW2cH6DaXzQ7s5bT9uRfE3yA"
		fernet  = "gAAAAABnQ0v9yq1mW2cH6DaXzQ7s5bT9uRfE3yAdozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
		blob    = "eyJpdiI6Ik5oQWJjZGVmIiwidmFsdWUiOiJ4eXoifQ" // as Laravel writes it, without padding
	)
	for value, want := range map[string]bool{
		`Digest username="a", realm="b c"`: true, "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c": true, "Token abc x": false, "JWT abc,x": false, "Strange abc x=y": false, "Token " + session + "=x": false,
		"Digest a=b " + signer: false, "Digest a=b " + signer[:9] + "=" + signer[9:]: false, `Digest a="b ` + session + `"`: false, `Digest a=b ` + fernet[:4] + "=" + fernet[4:] + "!": false,
		`Digest username="a", uri="/a?b", response="0123456789abcdef0123456789abcdef", nonce="eyJ.x"`: true,
		session + "<<  <<=": false, session + " x": false, session[:40] + " " + session[40:]: false, session + " a=b": false, fernet[:8] + " " + fernet[8:]: false, blob + " x": false, "Odd-Scheme abc": true,
	} {
		if _, certain := Credentials(value); certain != want {
			t.Errorf("%q is certain: %v, want %v", value, certain, want)
		}
	}
}
