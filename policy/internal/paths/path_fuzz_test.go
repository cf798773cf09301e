package paths

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// allForms returns all forms.
func allForms() (all []Form) {
	for i := range 12 {
		all = append(all, Form{IgnoreCase: i&1 != 0, StripParams: i&2 != 0, Slash: Slash(i >> 2)})
	}
	return all
}

// FuzzClean checks that a clean path stays unchanged, has no segments left to remove,
// and decodes to the same path.
func FuzzClean(f *testing.F) {
	for _, s := range []string{
		"/", "//a/./b/../c/", "/%2e%2e/%2f%2F", "/a;b/..;/c", "/%zz%2", "/%25%32%65", "\x00\xff", "/A%4a", "a/b", "/%c3%a9é",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, o := range allForms() {
			got := o.Clean(in)
			if again := o.Clean(got); again != got {
				t.Errorf("%+v: Clean(%q) = %q, and cleaned again %q", o, in, got, again)
			}
			if got[0] != '/' || len(got) > 1 && path.Clean(got) != got {
				t.Errorf("%+v: Clean(%q) = %q, which is not clean", o, in, got)
			}
			for i := range len(got) {
				if c := got[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("?#\\\"<>", c) >= 0 {
					t.Errorf("%+v: Clean(%q) = %q holds %q", o, in, got, c)
				}
			}
			decoded, err := url.PathUnescape(got)
			if err != nil {
				t.Errorf("%+v: Clean(%q) = %q: %v", o, in, got, err)
			}
			// A path without segments to remove keeps its meaning.
			if o != (Form{}) || len(in) < 2 || in[0] != '/' || in[len(in)-1] == '/' {
				continue
			}
			if want, err := url.PathUnescape(in); err == nil && path.Clean(want) == want && want == in && decoded != in {
				t.Errorf("Clean(%q) = %q, which means %q", in, got, decoded)
			}
		}
	})
}

// FuzzPathAliases checks that all spellings that a server decodes to one path have the same clean path.
func FuzzPathAliases(f *testing.F) {
	f.Add("/api/login", uint64(0b1010110), uint64(3))
	f.Add("/a/b c/é", uint64(0xffff), uint64(0))
	f.Fuzz(func(t *testing.T, p string, encode, insert uint64) {
		if len(p) > 60 {
			return
		}
		for _, o := range allForms() {
			want := o.Clean(p)
			// Encode some letters, in either case, and insert segments without meaning.
			var b strings.Builder
			for i := range len(want) {
				switch c := want[i]; {
				case c == '/':
					b.WriteString([]string{"/", "//", "/./", "/%2e/", "/x/../", "/x/%2E./"}[(insert>>(uint(i)%60))%6])
				case c == '%' || i > 0 && want[i-1] == '%' || i > 1 && want[i-2] == '%', encode>>(uint(i)%64)&1 == 0, c == ';':
					b.WriteByte(c)
				case i%2 == 0:
					b.WriteString("%" + strings.ToLower(string([]byte{hexDigits[c>>4], hexDigits[c&15]})))
				default:
					b.WriteString("%" + string([]byte{hexDigits[c>>4], hexDigits[c&15]}))
				}
			}
			if got := o.Clean(b.String()); got != want {
				t.Errorf("%+v: Clean(%q) = %q, and Clean(%q) = %q", o, b.String(), got, p, want)
			}
		}
	})
}
