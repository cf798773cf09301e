package paths

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/faults"
)

func variantsOf(o Form, escaped string) []string {
	clean, others, _ := o.Variants(escaped)
	return append([]string{clean}, others...)
}

// A path has a variant for each way in which services read it.
func TestPathsHaveAVariantForEachService(t *testing.T) {
	keep, decode, strip := Form{Slash: SlashKeep}, Form{Slash: SlashDecode}, Form{StripParams: true}
	for _, c := range []struct {
		form Form
		in   string
		want []string
	}{
		// One variant for all services.
		{in: "/api/x", want: []string{"/api/x"}},
		{in: "/%61pi/x/", want: []string{"/api/x"}},
		{in: "/api//", want: []string{"/api"}},
		{in: "/api/...%2e/.x", want: []string{"/api/..../.x"}},
		{form: keep, in: "/api%2f..%2fx", want: []string{"/api%2F..%2Fx"}},
		{form: keep, in: "/%252e%252e/x", want: []string{"/%252e%252e/x"}},
		{form: keep, in: "/a%5Cb", want: []string{"/a%5Cb"}},
		// An empty segment before another one: removed, or not.
		{in: "/%61pi//x/", want: []string{"/api/x", "/api//x"}},
		{in: "///api/x//", want: []string{"/api/x", "///api/x"}},
		{form: keep, in: "/api//x", want: []string{"/api/x", "/api//x"}},
		{form: decode, in: "/api%2f%2fx", want: []string{"/api/x", "/api//x"}},
		{in: "/api%2f/x", want: []string{"/api%2F/x", "/api/x", "/api//x"}},
		{in: "/api%2f%2fx", want: []string{"/api%2F%2Fx", "/api/x", "/api//x"}},
		{in: `/api%5c/x`, want: []string{"/api%5C/x", "/api/x", "/api//x"}},
		{in: "/api/%252fx", want: []string{"/api/%252fx", "/api/%2Fx", "/api/x", "/api//x"}},
		{in: "/api/./x//y", want: []string{"/api/x/y", "/api/x//y", "/api/%2E/x/y", "/api/%2E/x//y"}},
		{form: strip, in: "/api/;v/x", want: []string{"/api/x", "/api//x"}},
		// An encoded slash: part of its segment, or a slash.
		{in: "/a%2Fb", want: []string{"/a%2Fb", "/a/b"}},
		{in: "/%2fapi", want: []string{"/%2Fapi", "/api", "//api"}},
		{in: "/api%2f", want: []string{"/api%2F", "/api"}},
		{in: "/api%2f..%2fx", want: []string{"/api%2F..%2Fx", "/x", "/api/%2E%2E/x"}},
		{in: "/%2e%2e%2fapi", want: []string{"/..%2Fapi", "/api", "/%2E%2E/api"}},
		// A backslash too.
		{in: "/a%5Cb", want: []string{"/a%5Cb", "/a/b"}},
		{in: "/a%2fb%5cc", want: []string{"/a%2Fb%5Cc", "/a/b%5Cc", "/a/b/c"}},
		{in: `/a%5c..%5Cb`, want: []string{"/a%5C..%5Cb", "/b", "/a/%2E%2E/b"}},
		// Decoded twice.
		{in: "/%252561", want: []string{"/%252561", "/%2561"}},
		{in: "/%2561pi", want: []string{"/%2561pi", "/api"}},
		{in: "/a%252Fb", want: []string{"/a%252Fb", "/a%2Fb", "/a/b"}},
		{in: "/%252e%252e/x", want: []string{"/%252e%252e/x", "/x", "/%2E%2E/x"}},
		{in: "/100%25/%25zz", want: []string{"/100%25/%25zz"}},
		// Encoded dots: resolved, or names.
		{in: "/api/%2e%2e/x", want: []string{"/x", "/api/%2E%2E/x"}},
		{in: "/api/.%2E/x", want: []string{"/x", "/api/%2E%2E/x"}},
		{in: "/api/%2e/x", want: []string{"/api/x", "/api/%2E/x"}},
		// Plain dots: resolved, or names to services that resolve none.
		{in: "/api/../x", want: []string{"/x", "/api/%2E%2E/x"}},
		{in: "/api/./x/", want: []string{"/api/x", "/api/%2E/x"}},
		// Both: all are resolved; none; the plain dots and then all; or only the plain dots.
		{in: "/a/%2e%2e/../b", want: []string{"/b", "/a/%2E%2E/%2E%2E/b", "/a/b"}},
		{in: "/a/b/%2e%2e/%2e%2e/../c", want: []string{"/c", "/a/b/%2E%2E/%2E%2E/%2E%2E/c", "/a/c", "/a/b/%2E%2E/c"}},
		// Two dots may remove an empty segment.
		{in: "/api//../x", want: []string{"/x", "/api/x", "/api/%2E%2E/x", "/api//%2E%2E/x"}},
		{in: "/api//%2e%2e/x", want: []string{"/x", "/api/x", "/api/%2E%2E/x", "/api//%2E%2E/x"}},
		{in: "//../x", want: []string{"/x", "/%2E%2E/x", "//%2E%2E/x"}},
		// Slashes and parameters, if the settings include them.
		{form: decode, in: "/api%2f..%2fx", want: []string{"/x", "/api/%2E%2E/x"}},
		{form: decode, in: "/api/..%2f../x", want: []string{"/x", "/api/%2E%2E/%2E%2E/x"}},
		{form: decode, in: "/api/x%2fy/../z", want: []string{"/api/x/z", "/api/x/y/%2E%2E/z", "/api/z"}},
		{form: strip, in: "/api/..;v=1/x", want: []string{"/x", "/api/%2E%2E/x"}},
		{form: strip, in: "/api/;/../x", want: []string{"/x", "/api/x", "/api/%2E%2E/x", "/api//%2E%2E/x"}},
		// No path leaves the root.
		{in: "/%2e%2e", want: []string{"/", "/%2E%2E"}},
		{in: "/../../..", want: []string{"/", "/%2E%2E/%2E%2E/%2E%2E"}},
	} {
		if got := variantsOf(c.form, c.in); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q has the variants %q, want %q", c.form, c.in, got, c.want)
		}
	}
}

func TestCleanPathsHaveOneVariantWithoutAllocation(t *testing.T) {
	for _, p := range []string{"/", "/api/v1/users/42", "/caf%C3%A9", "/a%20b;c=d/.well-known"} {
		if n := testing.AllocsPerRun(100, func() { _, _, _ = Form{}.Variants(p) }); n != 0 || len(variantsOf(Form{}, p)) != 1 {
			t.Errorf("%q has %d variants, and %v allocations", p, len(variantsOf(Form{}, p)), n)
		}
	}
}

// FuzzPathVariants checks that the first variant is the clean path, and that dots in a variant are only names.
// Whatever a hop resolves before a service, the service's variant is one of the path's variants.
func FuzzPathVariants(f *testing.F) {
	for _, s := range []string{
		"/", "/api/%2e%2e/x", "//a/./b/../c/", "/%2e%2E/%2f%2F/..", "/a;b/..;/c", "/a//..//%2e%2e/../b", "/a/b/%2e%2e/.%2e/../c", "/a/%2e//../%2e./..//b",
	} {
		f.Add(s)
	}
	f.Fuzz(checkVariants)
}

// TestVariantsOfHops tries many paths that consist mostly of dots.
func TestVariantsOfHops(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	several := 0
	for range 2000 {
		var in strings.Builder
		for range 1 + r.IntN(7) {
			in.WriteString([]string{"/", "/", "/", "/", "/", "%2f"}[r.IntN(6)])
			in.WriteString([]string{"a", "b", "", ".", "%2e", "..", "..", "%2e%2e", ".%2E", "..;x", "a;b", "..."}[r.IntN(12)])
		}
		checkVariants(t, in.String())
		if len(variantsOf(Form{}, in.String())) > 3 {
			several++
		}
	}
	if several < 30 {
		t.Errorf("%d paths had more than 3 variants", several)
	}
}

func checkVariants(t *testing.T, in string) {
	t.Helper()
	names := strings.NewReplacer("/%2E%2E", "/d", "/%2E", "/d")
	for _, o := range allForms() {
		_, _, fault := o.Variants(in)
		all := variantsOf(o, in)
		if fault != (faults.Fault{}) {
			if fault == tooMany && o.Slash != SlashAny && len(in) < longestDotted {
				t.Errorf("%+v: %q is refused", o, in)
			}
			continue
		}
		if all[0] != o.Clean(in) || len(all) > mostVariants || o.Slash != SlashAny && len(all) > 54 ||
			o.Slash == SlashKeep && !o.StripParams && len(all) > 16 {
			t.Fatalf("%+v: %q has the variants %q; clean, it is %q", o, in, all, o.Clean(in))
		}
		for i, path := range all {
			if plain := Merge(names.Replace(path)); o.Clean(plain) != plain || slices.Contains(all[:i], path) {
				t.Errorf("%+v: %q has the variants %q", o, in, all)
			}
		}
		if o.Slash == SlashAny {
			// What services of each kind see is among them.
			for _, one := range []Slash{SlashKeep, SlashDecode} {
				o := Form{IgnoreCase: o.IgnoreCase, StripParams: o.StripParams, Slash: one}
				for _, path := range variantsOf(o, in) {
					if !slices.Contains(all, path) {
						t.Errorf("%+v: %q has the variants %q, without %q", o, in, all, path)
					}
				}
			}
		}
		for _, decode := range []bool{false, true} {
			for _, gaps := range []bool{false, true} {
				next := hop(in, decode, gaps)
				behind := variantsOf(o, next)
				if o.Slash != SlashKeep || o.StripParams {
					behind = behind[:1] // one hop is enough, and its slashes differ from the service's
				}
				for _, path := range behind {
					if !slices.Contains(all, path) {
						t.Errorf("%+v: %q is %q behind a hop, with the variants %q; the path has %q", o, in, next, path, all)
					}
				}
			}
		}
	}
}

// A path beyond the bounds is refused, whatever the rules, and costs little.
func TestPathsWithTooManyVariants(t *testing.T) {
	for _, c := range []struct {
		in    string
		fails bool
	}{
		{"/" + strings.Repeat("a", 1<<20), false},
		{"/" + strings.Repeat("a/", 1<<19), false},
		{"/" + strings.Repeat("%C3%A9", 10_000), false},
		{"/a%2F" + strings.Repeat("a", longestPath-10), false},
		{"/a%2F" + strings.Repeat("a", longestPath), true},
		{"/a/%2e%2e/" + strings.Repeat("a", longestDotted-20), false},
		{"/a/%2e%2e/" + strings.Repeat("a", longestDotted), true},
		{strings.Repeat("/a/../%2e%2e%2f%252e%252e%5c//", 33), false},
		{"/x/%2e%2e/..%2f//%252f/.%5c/./b", false},  // 64 variants
		{"/x/////b/./%2e%2e/.%2f/..%5c%252f", true}, // 65
		{"//%2e%5c..//b//b%252fa;b//..%2f%252e%252e//../.../%252e%252e/../%2e/%2e/..", true},
	} {
		_, others, fault := Form{}.Variants(c.in)
		if (fault == tooMany) != c.fails || c.fails && len(others) > 0 {
			t.Errorf("%.40q of %d bytes has %d other variants: %v", c.in, len(c.in), len(others), fault)
		}
	}
}

// A path with a control character is refused, in every spelling that the services may decode.
func TestControlCharactersInPaths(t *testing.T) {
	keep, decode := Form{Slash: SlashKeep}, Form{Slash: SlashDecode}
	for _, c := range []struct {
		form  Form
		in    string
		fails bool
	}{
		{in: "/admin%00", fails: true},
		{in: "/admin%00/x", fails: true},
		{in: "/%1f", fails: true},
		{in: "/%1F", fails: true},
		{in: "/a%0Ab", fails: true},
		{in: "/a%7fb", fails: true},
		{in: "/a\x00b", fails: true},
		{in: "/a\x7f", fails: true},
		{in: "/a%2500", fails: true},
		{in: "/a%25250a", fails: true},
		{in: "/a%2f%00", fails: true},
		{form: keep, in: "/a%00", fails: true},
		{form: decode, in: "/a%00", fails: true},
		{form: keep, in: "/a%2500"},
		{form: decode, in: "/a%2500"},
		{in: "/a%20b"},
		{in: "/a%C3%A9%80%ff"},
		{in: "/a%2520"},
		{in: "/100%25"},
		{in: "/100%250"},
		{in: "/%0"},
		{in: "/%"},
	} {
		_, others, fault := c.form.Variants(c.in)
		if (fault == Control) != c.fails || c.fails && len(others) > 0 {
			t.Errorf("%+v: %q has %d other variants: %v", c.form, c.in, len(others), fault)
		}
		if c.form.HasControl(c.in) != c.fails {
			t.Errorf("%+v: %q has a control character: %v", c.form, c.in, !c.fails)
		}
	}
}

// hop resolves some dots of a path, as a proxy before a service may. It works differently from the code
// under test.
func hop(escaped string, decode, gaps bool) string {
	var left []string
	for _, s := range strings.Split(strings.TrimPrefix(escaped, "/"), "/") {
		is := s
		if decode {
			is = strings.NewReplacer("%2e", ".", "%2E", ".").Replace(s)
		}
		switch {
		case is == ".", is == "" && !gaps:
		case is != "..":
			left = append(left, s)
		case len(left) > 0:
			left = left[:len(left)-1]
		}
	}
	return "/" + strings.Join(left, "/")
}
