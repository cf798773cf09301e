package config

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/soak"
)

// laughs nests aliases nine deep, each ten times: a thousand million values.
func laughs(open, alias, end string) string {
	var b strings.Builder
	b.WriteString("version: 1\nx-0: &a0 {level: info}\n")
	for i := 1; i < 10; i++ {
		one := fmt.Sprintf(alias, i-1)
		fmt.Fprintf(&b, "x-%d: &a%d %s%s%s\n", i, i, open, strings.Repeat(one+", ", 9)+one, end)
	}
	return b.String()
}

// A small file that would expand to a huge one costs little, and is an error.
func TestBombsAreErrorsAndCostLittle(t *testing.T) {
	size := min(soak.Times(t, reader.MaxFileSize/8), reader.MaxFileSize)
	most := 2048 * uint64(size) / reader.MaxFileSize // MiB
	deepMerge := laughs("{<<: [", "*a%d", "]}")
	for name, text := range map[string]string{
		"lists of lists":     laughs("[", "*a%d", "]") + "rules: *a9\n",
		"prefixes":           laughs("[", "*a%d", "]") + "trusted_proxies: *a9\n",
		"merges":             deepMerge + "log: *a9\nfrob: 1\n",
		"merges in rules":    deepMerge + "rules: [*a9, *a9, *a9]\n",
		"brackets":           "version: " + strings.Repeat("[", size/2),
		"closed brackets":    "version: " + strings.Repeat("[", size/4) + strings.Repeat("]", size/4),
		"braces":             "version: " + strings.Repeat("{a: ", size/8),
		"dashes":             strings.Repeat("- ", size/4),
		"question marks":     strings.Repeat("? ", size/4),
		"colons":             strings.Repeat("a: ", size/8),
		"anchors":            "version: " + strings.Repeat("&a ", size/8),
		"tags":               "version: " + strings.Repeat("!a ", size/8),
		"aliases":            "version: [" + strings.Repeat("*a, ", size/8) + "]",
		"settings":           strings.Repeat("a: 1\n", size/8),
		"different settings": "version: 1\n" + numbered("k%d: 1\n", 50_000),
		"flow settings":      "version: {" + numbered("k%d: 1, ", 50_000) + "}",
		"entries":            "trusted_proxies: [" + strings.Repeat("a, ", size/8) + "]",
		"rules":              "rules:\n" + strings.Repeat(" - a\n", size/16),
		"indents":            indents(1000),
		"documents":          strings.Repeat("---\n", size/8),
		"quotes":             "version: " + strings.Repeat("\"", size/2),
		"one line":           "version: " + strings.Repeat("a", size/2),
		"too large":          strings.Repeat("#", reader.MaxFileSize+1),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := Parse("bomb.yaml", []byte(text))
			runtime.ReadMemStats(&after)
			var errs reader.Errors
			if f != nil || !errors.As(err, &errs) || len(errs) > reader.MaxErrors {
				t.Fatalf("Parse = %v, %.500v", f, err)
			}
			if len(err.Error()) > 200_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > most {
				t.Errorf("it took %d MiB of memory, want %d at most", used, most)
			}
		})
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func indents(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// A file with thousands of rules is valid.
func TestManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	const rules = 5000
	for i := range rules {
		fmt.Fprintf(&b, "  - name: rule%d\n    match: {path: /api/x%d/**, method: [GET, POST]}\n    key: [client_ip, \"header:X-User\"]\n    limit: {algorithm: token_bucket, rate: 100/m, burst: 20}\n", i, i)
	}
	f, err := Parse("many.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := f.Policy(); err != nil || len(p.Rules()) != rules {
		t.Errorf("Policy = %v", err)
	}
}
