package policyfile_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/sluicehq/sluice/policyfile"
)

// TestDocumentedConfigurationsAreValid reads each YAML block of the server's page.
func TestDocumentedConfigurationsAreValid(t *testing.T) {
	text, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Fatal("docs/server.md has no YAML")
	}
	for _, block := range blocks {
		f, err := policyfile.Parse("docs/server.md", block[1])
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if _, err := f.Policy(); err != nil {
			t.Errorf("%v", err)
		}
	}
}
