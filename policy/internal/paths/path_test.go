package paths

import "testing"

// The spellings of a path by which a service finds one handler are one path.
func TestSpellingsOfAPathAreOne(t *testing.T) {
	fold, decode, strip := Form{IgnoreCase: true}, Form{Slash: SlashDecode}, Form{StripParams: true}
	for _, c := range []struct {
		form     Form
		in, want string
	}{
		// One handler, one path.
		{in: "/login", want: "/login"},
		{in: "/login/", want: "/login"},
		{in: "//login", want: "/login"},
		{in: "/login//", want: "/login"},
		{in: "/./login", want: "/login"},
		{in: "/login/.", want: "/login"},
		{in: "/a/../login", want: "/login"},
		{in: "/a/b/../../login", want: "/login"},
		{in: "/../../login", want: "/login"},
		{in: "/%2e/login", want: "/login"},
		{in: "/a/%2e%2E/login", want: "/login"},
		{in: "/a/.%2e/login", want: "/login"},
		{in: "/%6Cogin", want: "/login"},
		{in: "/%6c%6f%67%69%6e", want: "/login"},
		{in: "login", want: "/login"},
		// The root.
		{in: "", want: "/"},
		{in: "/", want: "/"},
		{in: "//", want: "/"},
		{in: "/..", want: "/"},
		{in: "/a/..", want: "/"},
		{in: "/.", want: "/"},
		{in: "*", want: "/*"},
		// Segments that only look like dots.
		{in: "/...", want: "/..."},
		{in: "/.well-known", want: "/.well-known"},
		{in: "/..a/b..", want: "/..a/b.."},
		// Encoding.
		{in: "/a%20b", want: "/a%20b"},
		{in: "/a b", want: "/a%20b"},
		{in: "/caf\u00e9", want: "/caf%C3%A9"},
		{in: "/caf%c3%a9", want: "/caf%C3%A9"},
		{in: "/a%3Ab", want: "/a:b"},
		{in: "/a%3fb", want: "/a%3Fb"},
		{in: "/a?b", want: "/a%3Fb"},
		{in: "/%00", want: "/%00"},
		{in: "/\x00", want: "/%00"},
		{in: "/100%", want: "/100%25"},
		{in: "/%zz", want: "/%25zz"},
		{in: "/%2", want: "/%252"},
		// Nothing is decoded twice.
		{in: "/%2541", want: "/%2541"},
		{in: "/%252e%252e/a", want: "/%252e%252e/a"},
		{in: "/%25%32%65", want: "/%252e"},
		// A slash inside a segment.
		{in: "/a%2fb", want: "/a%2Fb"},
		{in: "/a/..%2Fb", want: "/a/..%2Fb"},
		{form: decode, in: "/a%2fb", want: "/a/b"},
		{form: decode, in: "/a%2Fb", want: "/a/b"},
		{form: decode, in: "/a%2F..%2fb%2F", want: "/b"},
		{form: decode, in: "/a%252fb", want: "/a%252fb"},
		// Backslashes are not slashes.
		{in: "/a\\b", want: "/a%5Cb"},
		// Case.
		{in: "/Login", want: "/Login"},
		{form: fold, in: "/LOGIN/%4c%c3%89", want: "/login/l%C3%89"},
		// Parameters.
		{in: "/a;b=c/d", want: "/a;b=c/d"},
		{in: "/a%3bb", want: "/a;b"},
		{form: strip, in: "/login;jsessionid=1", want: "/login"},
		{form: strip, in: "/a;x/b;y;z/", want: "/a/b"},
		{form: strip, in: "/a/..;/b", want: "/b"},
		{form: strip, in: "/;/a", want: "/a"},
		{form: strip, in: "/a%3bb", want: "/a%3Bb"},
		{form: strip, in: "/a;%2e%2e/b", want: "/a/b"},
	} {
		if got := c.form.Clean(c.in); got != c.want {
			t.Errorf("%+v: Clean(%q) = %q, want %q", c.form, c.in, got, c.want)
		}
		if got := c.form.Clean(c.want); got != c.want {
			t.Errorf("%+v: Clean(%q) = %q, want it unchanged", c.form, c.want, got)
		}
	}
}

func TestCleanKeepsCleanPaths(t *testing.T) {
	for _, p := range []string{"/", "/api/v1/users/42", "/caf%C3%A9", "/a%2Fb;c=d/.well-known"} {
		if n := testing.AllocsPerRun(100, func() { _ = Form{}.Clean(p) }); n != 0 {
			t.Errorf("Clean(%q) allocates %v times", p, n)
		}
	}
}
