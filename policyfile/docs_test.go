package policyfile_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/sluicehq/sluice/policyfile"
)

// TestDocumentedConfigurationsAreValid reads each YAML block of the server's pages.
func TestDocumentedConfigurationsAreValid(t *testing.T) {
	for _, page := range []string{"docs/server.md", "docs/redis.md"} {
		text, err := os.ReadFile("../" + page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Fatalf("%s has no YAML", page)
		}
		for _, block := range blocks {
			f, err := policyfile.Parse(page, block[1])
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			if _, err := f.Policy(); err != nil {
				t.Errorf("%v", err)
			}
		}
	}
}
