package promises

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	anyLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	namedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeLink  = regexp.MustCompile("\\[`([\\w.]+)`\\]\\(([^)]+\\.go)\\)")
	unslugged = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksAndNamedTestsExist follows every link between files of the repository, with its heading, on every page of
// the documentation. It finds every test that a page names, and every declaration that a page links
// to its file.
func TestLinksAndNamedTestsExist(t *testing.T) {
	repo := os.DirFS("../..")
	tests := map[string]bool{}
	pages := map[string]string{}
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(name, "_test.go"), path.Ext(name) == ".md":
			text, err := fs.ReadFile(repo, name)
			if err != nil {
				return err
			}
			if path.Ext(name) == ".md" {
				pages[name] = string(text)
			}
			for _, m := range testFunc.FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 || len(tests) < 500 {
		t.Fatalf("found %d pages and %d tests", len(pages), len(tests))
	}
	for name, text := range pages {
		for _, l := range anyLink.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := fs.Stat(repo, target); err != nil {
				t.Errorf("%s links to %s: %v", name, l[1], err)
			}
			if page, ok := pages[target]; ok && anchor != "" && !anchors(page)[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", name, l[1], target)
			}
		}
		for _, l := range codeLink.FindAllStringSubmatch(text, -1) {
			source, err := fs.ReadFile(repo, path.Join(path.Dir(name), l[2]))
			short := l[1][strings.LastIndex(l[1], ".")+1:]
			declared := regexp.MustCompile(`(?m)^(func|type|var) (\([^)]*\) )?` + short + `\b`)
			if err != nil || !declared.Match(source) {
				t.Errorf("%s: %s does not declare %s (%v)", name, l[2], l[1], err)
			}
		}
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}

// anchors returns the anchors of a page's headings.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all[strings.ReplaceAll(unslugged.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}
