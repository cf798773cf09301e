package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/config"
)

// TestDocumentedConfigurationsAreValid reads each YAML block of the server's pages.
func TestDocumentedConfigurationsAreValid(t *testing.T) {
	for _, page := range []string{"docs/server.md", "docs/redis.md", "docs/gateways.md", "docs/models.md"} {
		text, err := os.ReadFile("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Fatalf("%s has no YAML", page)
		}
		for _, block := range blocks {
			f, err := config.Parse(page, block[1])
			if err != nil {
				t.Errorf("a block of the page is invalid: %v", err)
				continue
			}
			if _, err := f.Policy(); err != nil {
				t.Errorf("a policy of the page is invalid: %v", err)
			}
		}
	}
}

// TestExamplesAreValid loads each example, with the files that it names.
func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	used := map[string]bool{}
	for _, name := range files {
		f, err := config.Load(name)
		if err != nil {
			t.Errorf("an example is invalid: %v", err)
			continue
		}
		if _, err := f.Policy(); err != nil || len(f.Rules) == 0 {
			t.Errorf("%s: %d rules, %v", name, len(f.Rules), err)
		}
		for _, list := range f.Files() {
			used[list] = true
		}
	}
	lists, err := filepath.Glob("../../../examples/lists/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		if !used[list] {
			t.Errorf("no example names %s", list)
		}
	}
}

// TestPoliciesAreExamples finds each rule that docs/policies.md shows, line for line, in
// an example, which is run; and each example in the page.
func TestPoliciesAreExamples(t *testing.T) {
	const name = "../../../docs/policies.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var examples strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples.Write(text)
		if !strings.Contains(string(page), "(../examples/"+filepath.Base(file)+")") {
			t.Errorf("docs/policies.md does not show %s", filepath.Base(file))
		}
	}
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for _, rule := range strings.Split(block[1], "  - name: ")[1:] {
			shown++
			rule, _, _ = strings.Cut(rule, "\nrules:\n")
			if rule = "  - name: " + strings.TrimRight(rule, "\n") + "\n"; !strings.Contains(examples.String(), rule) {
				t.Errorf("docs/policies.md shows what no example has:\n%s", rule)
			}
		}
	}
	if shown < 20 {
		t.Errorf("docs/policies.md shows %d rules and classes", shown)
	}
}

// TestConfigurationExamples loads the files that docs/configuration.md shows, and finds every setting
// of the schema in one of them. The page takes the example of each setting from them.
func TestConfigurationExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/configuration/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		f, err := config.Load(name)
		if err != nil {
			t.Errorf("an example of the page is invalid: %v", err)
			continue
		}
		if _, err := f.Policy(); err != nil {
			t.Errorf("the policy of %s is invalid: %v", name, err)
		}
	}
}
